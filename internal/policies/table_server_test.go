package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/run/server"
)

// outcomeTable is what follows from what a Limit and an Allow policy say, without
// and with a DenyRest: A(pprove), D(eny), N(eedPeople), W(ait) or L(eave). A
// blank is a case without any policy.
var outcomeTable = map[string]map[string]string{
	"none":     {"none": " D", "holds": "AA", "people": "NN", "leave": "LL", "violated": "DD", "excepted": "AA", "open": "WW"},
	"holds":    {"none": "LD", "holds": "AA", "leave": "LL", "violated": "DD", "open": "WW"},
	"people":   {"none": "ND", "holds": "NN", "people": "NN", "leave": "NN", "violated": "DD", "open": "WW"},
	"violated": {"none": "DD", "holds": "DD", "open": "DD"},
	"excepted": {"none": "LD", "holds": "AA", "excepted": "AA", "violated": "DD"},
	"open":     {"none": "WW", "holds": "WW", "violated": "WW"},
}

// outcomeCase is a cell of the table, with a signer of its own.
type outcomeCase struct {
	limit, allow string
	rest         bool
	want         byte
}

func (c outcomeCase) name() string {
	name := c.limit + "-" + c.allow
	if c.rest {
		name += "-rest"
	}
	return name
}

func (c outcomeCase) signer() string { return "table.example.com/" + c.name() }

// saying are the parts of a policy that says something about the requests here.
var saying = map[string]string{
	"holds": "", "people": "approval: {mode: People, people: {count: 2}}", "leave": "approval: {mode: Leave}",
	"violated": `rules: [{name: violated, expression: "false"}]`, "excepted": `rules: [{name: excepted, expression: "false"}]`,
	"open": `rules: [{name: open, expression: "node.ips.size() > 0"}]`,
}

// objects returns the policies and the exception of a case.
func (c outcomeCase) objects() []string {
	match := fmt.Sprintf("match: {kinds: [CertificateSigningRequest], signers: [%s]}", c.signer())
	policy := func(role, effect, says string, parts ...string) string {
		return fmt.Sprintf("{metadata: {name: %s-%s}, spec: {%s}}", c.name(), role, join(append(parts, "effect: "+effect, match, says)...))
	}
	var all []string
	if c.limit != "none" {
		all = append(all, policy("limit", "Limit", saying[c.limit]))
	}
	if c.allow != "none" {
		all = append(all, policy("allow", "Allow", saying[c.allow], "certificate: {usages: {allowed: [digital signature, key encipherment, client auth]}, subject: {commonName: {}}}"))
	}
	if c.rest {
		all = append(all, policy("deny", "DenyRest", ""))
	}
	return append(all, fmt.Sprintf(`{kind: CertificatePolicyException, metadata: {name: %s}, spec: {policies: [%[1]s-limit, %[1]s-allow], items: ["rules[excepted]"],
		match: {signers: [%s], requesters: {users: ["*"]}}, reason: test, notAfter: %q}}`, c.name(), c.signer(), time.Now().AddDate(0, 0, 30).UTC().Format(time.RFC3339)))
}

func join(parts ...string) string {
	var given []string
	for _, part := range parts {
		if part != "" {
			given = append(given, part)
		}
	}
	return strings.Join(given, ", ")
}

// TestOutcomesOfServer: the approver of a server does what follows from what Limits,
// Allow policies, DenyRests and exceptions say about requests of a node without
// addresses.
func TestOutcomesOfServer(t *testing.T) {
	f := startAlone(t, func(c *server.Config) { c.Policy.CreateChecks = false }) // what is denied can be stored
	var cases []outcomeCase
	for limit, row := range outcomeTable {
		for allow, wants := range row {
			if wants[0] != ' ' {
				cases = append(cases, outcomeCase{limit, allow, false, wants[0]})
			}
			cases = append(cases, outcomeCase{limit, allow, true, wants[1]})
		}
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, tc := range cases {
		group.Go(func() error {
			for _, text := range tc.objects() {
				if err := f.createText(text); err != nil {
					return fmt.Errorf("%s: %w", text, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	f.server.Grant(t, "system:node:n1", apitest.Allow("create", "certificatesigningrequests"))
	as, key := apitest.Client(t, f.server.As(t, "system:node:n1")), apitest.NewKey(t)
	apitest.Eventually(t, "all policies are in force", func() bool {
		list := &v1alpha1.CertificatePolicyList{}
		if f.objects.List(t.Context(), list) != nil {
			return false
		}
		for _, p := range list.Items {
			if p.Status.ObservedGeneration == 0 {
				return false
			}
		}
		return true
	})
	for _, tc := range cases {
		apitest.Create(t, as, apitest.NewCSR(t, tc.name(), tc.signer(), pki.Subject{CommonName: "n1"}, key))
	}
	outcomes := map[byte]string{'A': "Approve", 'D': "Deny", 'N': "NeedPeople", 'W': "Wait", 'L': "Leave"}
	conditions := map[byte]certificatesv1.RequestConditionType{'A': certificatesv1.CertificateApproved, 'D': certificatesv1.CertificateDenied, 'N': quorum.AwaitingApproval}
	events := map[byte]string{'A': "PolicyApproved", 'D': "PolicyDenied", 'N': "ApprovalsMissing", 'W': "WaitingForFacts"}
	var metrics string
	apitest.Eventually(t, "all are decided", func() bool {
		metrics = f.metrics()
		for _, tc := range cases {
			if !strings.Contains(metrics, tc.signer()+`",stage="Approver"}`) {
				return false
			}
		}
		return true
	})
	for _, tc := range cases {
		t.Run(tc.name(), func(t *testing.T) {
			f := &fixture{t, f.server, f.objects, f.api}
			for letter, outcome := range outcomes {
				line := fmt.Sprintf(`certplane_policy_decisions_total{kind="CertificateSigningRequest",outcome=%q,signer=%q,stage="Approver"} 1`, outcome, tc.signer())
				if is := strings.Contains(metrics, line+"\n"); is != (letter == tc.want) {
					t.Errorf("%s: %v", outcome, is)
				}
			}
			if reason := events[tc.want]; reason != "" { // once of each kind
				delete(events, tc.want)
				f.event(tc.name(), reason)
			}
			if kind := conditions[tc.want]; kind != "" {
				f.condition(&csr{ObjectMeta: metav1.ObjectMeta{Name: tc.name()}}, kind)
				return
			}
			current, err := f.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), tc.name(), metav1.GetOptions{})
			if err != nil || len(current.Status.Conditions) > 0 {
				t.Errorf("conditions %v, error %v", current.Status.Conditions, err)
			}
		})
	}
}

// createText creates a policy or an exception.
func (f *fixture) createText(text string) error {
	if strings.Contains(text, "kind: CertificatePolicyException") {
		x := &v1alpha1.CertificatePolicyException{}
		if err := yaml.UnmarshalStrict([]byte(text), x); err != nil {
			return err
		}
		return f.objects.Create(f.Context(), x)
	}
	p := &v1alpha1.CertificatePolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		return err
	}
	return f.objects.Create(f.Context(), p)
}
