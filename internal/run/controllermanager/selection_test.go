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

// A set stands for the names of its controllers, and these override it.
func TestSets(t *testing.T) {
	for _, tc := range []struct {
		choice          Selection
		inCluster       bool
		chosen, skipped []rights.Controller
	}{
		{Selection{"*", "@cert-manager", "-certificaterequests-approver"}, true,
			[]rights.Controller{rights.Approve, rights.CheckIssuers, rights.ShimIngresses, rights.InjectCAs}, []rights.Controller{rights.ApproveRequests, rights.ShimGateways, rights.Publish}},
		{Selection{"@cert-manager"}, true, []rights.Controller{rights.ApproveRequests}, []rights.Controller{rights.Approve}},
		{Selection{"@cert-manager"}, false, []rights.Controller{rights.ApproveRequests}, []rights.Controller{rights.Approve, rights.ShimIngresses}},
		{Selection{"@trust-manager"}, true, []rights.Controller{rights.SpreadBundles}, []rights.Controller{rights.InjectCAs, rights.WriteTrustBundles}},
		{Selection{"*", "-@cert-manager", "issuers"}, false, []rights.Controller{rights.Approve, rights.CheckIssuers, rights.AnswerCSRs}, []rights.Controller{rights.ApproveRequests, rights.InjectCAs}},
	} {
		if err := checkSelection(tc.choice); err != nil {
			t.Error(err)
		}
		c := Config{InCluster: tc.inCluster, Settings: Settings{Controllers: tc.choice}}
		for _, of := range tc.chosen {
			if !c.Chooses(of) {
				t.Errorf("%q does not choose %s", tc.choice, of.Name)
			}
		}
		for _, of := range tc.skipped {
			if c.Chooses(of) {
				t.Errorf("%q chooses %s", tc.choice, of.Name)
			}
		}
	}
	for item, want := range map[string]string{
		"@certmanager": `unknown set "@certmanager": use one of @cert-manager, @trust-manager, or * for all`, "-@x": `unknown set "@x"`, "@": `unknown set "@"`,
	} {
		if err := checkSelection([]string{item}); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), ": use one of @cert-manager, @trust-manager, or * for all") {
			t.Errorf("%q: %v", item, err)
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
