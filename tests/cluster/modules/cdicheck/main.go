// Cdicheck says what the released CDI library thinks of spec files, for container engines load
// specs with that library: one JSON line for each file named on the command line.
package main

import (
	"encoding/json"
	"os"
	"sort"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

type verdict struct {
	Path    string   `json:"path"`
	Valid   bool     `json:"valid"`
	Error   string   `json:"error,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Devices []string `json:"devices,omitempty"`
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

// The exit status is 1 when at least one file is refused, so that a shell can ask too.
func main() {
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
