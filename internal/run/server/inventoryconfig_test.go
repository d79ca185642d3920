package server_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/run/server"
)

func TestKeepRecordsIsChecked(t *testing.T) {
	for keep, want := range map[time.Duration]string{
		24 * time.Hour:        "",
		3650 * 24 * time.Hour: "",
		0:                     "inventory.keep: 0s is out of range: must be from 1d to 3650d",
		23 * time.Hour:        "inventory.keep: 23h is out of range: must be from 1d to 3650d",
		3651 * 24 * time.Hour: "inventory.keep: 3651d is out of range: must be from 1d to 3650d",
	} {
		cfg := server.DefaultConfig()
		cfg.Inventory.Keep = metav1.Duration{Duration: keep}
		if err := cfg.Validate(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", keep, err, want)
		}
	}
}
