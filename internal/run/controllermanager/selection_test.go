package controllermanager

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/rights"
)

func TestSelected(t *testing.T) {
	tests := []struct {
		reason string
		choice []string
		sign   bool
	}{
		{"all", []string{"*"}, true},
		{"all but it", []string{"*", "-sign"}, false},
		{"the order does not matter", []string{"-sign", "*"}, false},
		{"all but another", []string{"*", "-publish"}, true},
		{"it alone", []string{"sign"}, true},
		{"another alone", []string{"publish"}, false},
		{"none", nil, false},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if got := selected(tc.choice, "sign"); got != tc.sign {
				t.Errorf("%q selects sign: %v, want %v", tc.choice, got, tc.sign)
			}
		})
	}
}

// Controllers for objects of clusters run there by name, and nowhere else.
func TestOnlyClusters(t *testing.T) {
	for _, tc := range []struct {
		inCluster bool
		choice    Selection
		want      bool
	}{
		{true, Selection{"*"}, false},
		{true, Selection{"*", rights.ShimIngresses.Name}, true},
		{false, Selection{"*", rights.ShimIngresses.Name}, false},
	} {
		c := Config{InCluster: tc.inCluster, Settings: Settings{Controllers: tc.choice}}
		if got := c.Chooses(rights.ShimIngresses); got != tc.want {
			t.Errorf("in a cluster %t, %q: %t", tc.inCluster, tc.choice, got)
		}
	}
}

func TestSelectionOfNoController(t *testing.T) {
	if err := checkSelection([]string{"*", "-sign"}); err != nil {
		t.Error(err)
	}
	if err := checkSelection([]string{"-*", "sign"}); err == nil || !strings.HasPrefix(err.Error(), `"-*" has no effect: `) {
		t.Error(err)
	}
	for _, item := range []string{"signer", "-signer", "-*", ""} {
		if err := checkSelection([]string{item}); err == nil || !strings.Contains(err.Error(), "use one of ") {
			t.Errorf("%q: %v", item, err)
		}
	}
}
