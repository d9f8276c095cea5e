// Cdicheck says what the released CDI library makes of spec files, for container engines load and
// apply specs with that library.
//
//	cdicheck FILE...   prints one JSON line for each file: whether it loads
//	cdicheck inject    reads one JSON line for each container from its input and prints one JSON
//	                   line for each: the container's OCI spec after its CDI devices were injected
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

type verdict struct {
	Path    string   `json:"path"`
	Valid   bool     `json:"valid"`
	Error   string   `json:"error,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Devices []string `json:"devices,omitempty"`
}

type container struct {
	Directories []string `json:"directories"`
	Devices     []string `json:"devices"`
	Spec        oci.Spec `json:"spec"`
}

type injected struct {
	Known      []string            `json:"known"`
	Refused    map[string][]string `json:"refused"`
	Unresolved []string            `json:"unresolved"`
	Error      string              `json:"error"`
	Spec       *oci.Spec           `json:"spec"`
}

func judge(path string) verdict {
	spec, err := cdi.ReadSpec(path, 0)
	if err != nil {
		return verdict{Path: path, Error: err.Error()}
	}
	names := make([]string, 0, len(spec.Devices))
	for _, device := range spec.Devices {
		names = append(names, device.Name)
	}
	sort.Strings(names)
	return verdict{Path: path, Valid: true, Kind: spec.Kind, Devices: names}
}

func inject(one container) (injected, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(one.Directories...), cdi.WithAutoRefresh(false))
	if err != nil {
		return injected{}, err
	}
	answer := injected{Known: cache.ListDevices(), Refused: map[string][]string{}}
	for path, faults := range cache.GetErrors() {
		for _, fault := range faults {
			answer.Refused[path] = append(answer.Refused[path], fault.Error())
		}
	}
	answer.Unresolved, err = cache.InjectDevices(&one.Spec, one.Devices...)
	if err != nil {
		answer.Error = err.Error()
		return answer, nil
	}
	answer.Spec = &one.Spec
	return answer, nil
}

func injectAll() error {
	lines := json.NewDecoder(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.More() {
		var one container
		if err := lines.Decode(&one); err != nil {
			return err
		}
		answer, err := inject(one)
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// The exit status is 1 when at least one file is refused, so that a shell can ask too.
func main() {
	if len(os.Args) == 2 && os.Args[1] == "inject" {
		if err := injectAll(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	refused := false
	lines := json.NewEncoder(os.Stdout)
	for _, path := range os.Args[1:] {
		answer := judge(path)
		refused = refused || !answer.Valid
		if err := lines.Encode(answer); err != nil {
			os.Exit(2)
		}
	}
	if refused {
		os.Exit(1)
	}
}
