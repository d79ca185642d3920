package manifests

import (
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	tests := []struct {
		reason            string
		cfg               Config
		replicas          int32
		cpu, memory       string // requests
		memoryLimit, goes string // limits
		refused           string
	}{
		{reason: "defaults", replicas: 2, cpu: "50m", memory: "64Mi", memoryLimit: "512Mi", goes: "448MiB"},
		{reason: "one resource of two", cfg: Config{Replicas: 3, Requests: map[string]string{"cpu": "1"}, Limits: map[string]string{"memory": "1Gi"}},
			replicas: 3, cpu: "1", memory: "64Mi", memoryLimit: "1Gi", goes: "896MiB"},
		{reason: "no limit", cfg: Config{Limits: map[string]string{"memory": "0"}}, replicas: 2, cpu: "50m", memory: "64Mi", memoryLimit: "0"},
		{reason: "an unknown resource", cfg: Config{Limits: map[string]string{"mem": "1Gi"}}, refused: `--limits: unknown resource "mem": use cpu or memory`},
		{reason: "no quantity", cfg: Config{Requests: map[string]string{"cpu": "some"}}, refused: `--requests: "some" is not a quantity of cpu, such as 50m`},
		{reason: "more than the limit", cfg: Config{Requests: map[string]string{"memory": "1Gi"}}, refused: "--requests: memory of 1Gi is more than the limit, 512Mi"},
		{reason: "fewer than no pods", cfg: Config{Replicas: -1}, refused: "--replicas: -1 is not a number of pods"},
	}
	for _, test := range tests {
		got, err := sizeOf(test.cfg)
		if test.refused != "" {
			if err == nil || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%s: error %v, want %q", test.reason, err, test.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
			continue
		}
		goes := ""
		for _, variable := range got.env() {
			goes = variable.Value
		}
		r := got.resources
		if got.replicas != test.replicas || r.Requests.Cpu().String() != test.cpu || r.Requests.Memory().String() != test.memory ||
			r.Limits.Memory().String() != test.memoryLimit || goes != test.goes {
			t.Errorf("%s: got %+v and %s", test.reason, got, goes)
		}
	}
}
