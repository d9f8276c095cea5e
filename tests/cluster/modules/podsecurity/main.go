// Judges pods by the Pod Security Standards as the API server's admission does.
//
// It reads one JSON document from standard input, a list of {"level", "version", "name", "pod"} where
// pod is {"metadata", "spec"}, and prints a line "name: check: reason" for each violation.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

type question struct {
	Level   string `json:"level"`
	Version string `json:"version"`
	Name    string `json:"name"`
	Pod     struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     corev1.PodSpec    `json:"spec"`
	} `json:"pod"`
}

func main() {
	if err := judge(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge() error {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		return err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	for _, each := range questions {
		level, err := api.ParseLevel(each.Level)
		if err != nil {
			return err
		}
		version, err := api.ParseVersion(each.Version)
		if err != nil {
			return err
		}
		by := api.LevelVersion{Level: level, Version: version}
		for _, result := range evaluator.EvaluatePod(by, &each.Pod.Metadata, &each.Pod.Spec) {
			if !result.Allowed {
				fmt.Printf("%s: %s: %s\n", each.Name, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
	return nil
}
