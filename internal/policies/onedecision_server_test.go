package policies_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	admission "github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/policy/cases"
	"github.com/certplane/certplane/internal/client/cli/policy/check"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/run/server"
)

// said is what each path must say alike.
type said struct {
	Outcome    v1alpha1.DecisionOutcome
	Reason     string
	Message    string
	Policy     string
	Violations []v1alpha1.PolicyViolation
	Considered []v1alpha1.ConsideredPolicy
}

func saidBy(d *v1alpha1.PolicyDecision) said {
	s := said{Outcome: d.Outcome, Reason: d.Reason, Message: d.Message, Violations: d.Violations, Considered: d.Considered}
	if d.Policy != nil {
		s.Policy = d.Policy.Name
	}
	return s
}

// decider has all paths to a decision about the requests of a server.
type decider struct {
	*fixture
	policies *policies.Policies
	checks   *admission.Checks
	set      *certpolicy.Set
	now      time.Time
	// dir has the files for the command line.
	dir    string
	reader explain.Reader
}

// TestOneDecision: admission at creation and at approval, the approver, the
// signers, and the commands explain, check, test and replay decide alike.
func TestOneDecision(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Controllers = []string{}    // nobody decides
		c.Policy.CreateChecks = false // what is denied can be stored
	})
	f.server.Grant(t, "alice", apitest.Allow("create", "certificatesigningrequests"))
	f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	d := &decider{fixture: f, now: time.Now().Add(10 * time.Second).Truncate(time.Second), dir: t.TempDir()}
	var requests []*csr
	for n := range decidedCases {
		d.apply(n)
		requests = append(requests, d.request(n))
	}
	d.follow()
	d.wantAllNeeds(requests)
	for n, tc := range decidedCases {
		t.Run(tc.reason, func(t *testing.T) {
			stored := requests[n]
			got := d.policies.Next(t.Context(), d.viewed(stored), nil)
			if got.Decision == nil {
				t.Fatal("no policy is about the request")
			}
			want := saidBy(got.Decision.PolicyDecision)
			if want.Outcome != tc.want {
				t.Errorf("the outcome is %s (%s): %s", want.Outcome, want.Reason, want.Message)
			}
			d.wantOfAdmission(t, stored, want)
			d.wantOfSigner(t, stored, want)
			d.wantOfExplain(t, stored, want)
			d.wantOfCheck(t, stored, want)
			d.wantOfReplay(t, stored, got.Decision, want)
			d.wantOfReplayToday(t, stored, want)
			d.wantOfTest(t, n, stored, want)
		})
	}
	d.wantNewDecisions(requests[0])
}

// wantNewDecisions checks that Validate decides again in the call in which Mutate has
// decided, if the request or the policies are others by then.
func (d *decider) wantNewDecisions(stored *csr) {
	d.Helper()
	write := admission.OfCSR(with(stored, approval(&voter{name: "bob"})), stored, "approval")
	write.User, write.MayApprove = quorum.Voter{Person: quorum.Person{Username: "bob"}}, func(context.Context) error { return nil }
	write.Call = &admission.Call{}
	sent := write.New
	mutate := func() {
		write.New = sent
		conditions, answer := d.checks.Mutate(d.Context(), write)
		if answer.Refusal != nil {
			d.Fatal(answer.Refusal)
		}
		write.New = conditions
	}
	mutate()
	if refusal := d.checks.Validate(d.Context(), write).Refusal; refusal != nil {
		d.Errorf("what Mutate lets through: %v", refusal)
	}
	other := write
	other.Request.Usages = []string{"server auth"}
	if d.checks.Validate(d.Context(), other).Refusal == nil {
		d.Error("another request is let through")
	}
	mutate()
	d.create(&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{stored.Spec.SignerName}},
		Certificate: &v1alpha1.CertificateConditions{Usages: &v1alpha1.UsageConditions{Allowed: []string{"server auth"}}},
	}})
	apitest.Eventually(d.T, "the policy is in force", func() bool {
		set, err := d.policies.Set()
		return err == nil && set.Policy("late") != nil
	})
	if d.checks.Validate(d.Context(), write).Refusal == nil {
		d.Error("what a new policy forbids is let through")
	}
}

// wantAllNeeds checks that the cases have all facts that policies can need.
func (d *decider) wantAllNeeds(requests []*csr) {
	d.Helper()
	var all certpolicy.Needs
	for _, stored := range requests {
		r := d.viewed(stored)
		all = all.And(d.set.Needs(&r))
	}
	needs := reflect.ValueOf(all)
	for i := range needs.NumField() {
		name := needs.Type().Field(i).Name
		if decided := !needs.Field(i).IsZero(); decided == (notDecided[name] != "") {
			d.Errorf("the need %s: a case has it: %v, why none has: %q", name, decided, notDecided[name])
		}
	}
}

func signerOf(n int) string {
	return cmp.Or(decidedCases[n].signer, fmt.Sprintf("case-%d.example.com/signer", n))
}

// apply creates the policies of a case, and writes them for the command line.
// Their names begin with that of the case.
func (d *decider) apply(n int) {
	d.Helper()
	for i, text := range decidedCases[n].policies {
		text = strings.NewReplacer("SIGNER", signerOf(n), "metadata: {name: ", fmt.Sprintf("metadata: {name: c%d-", n), "policies: [", fmt.Sprintf("policies: [c%d-", n),
			"NOTAFTER", d.now.AddDate(0, 0, 30).UTC().Format(time.RFC3339)).Replace(text)
		var object client.Object = &v1alpha1.CertificatePolicy{}
		kind := "CertificatePolicy"
		if strings.Contains(text, "kind: CertificatePolicyException") {
			object, kind = &v1alpha1.CertificatePolicyException{}, "CertificatePolicyException"
		}
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			d.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		data, err := yaml.Marshal(object)
		if err != nil {
			d.Fatal(err)
		}
		d.write(filepath.Join("policies", fmt.Sprintf("%d-%d.yaml", n, i)), data)
		d.create(object)
	}
}

func (d *decider) write(name string, data []byte) string {
	d.Helper()
	path := filepath.Join(d.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		d.Fatal(err)
	}
	return path
}

// request stores the request of a case.
func (d *decider) request(n int) *csr {
	d.Helper()
	tc := decidedCases[n]
	names := []string{"www.shop.example.com"}
	if tc.foreign {
		names = append(names, "www.example.org")
	}
	subject := pki.Subject{DNSNames: names}
	if tc.kubelet {
		subject = pki.Subject{CommonName: "system:node:n3", Organizations: []string{"system:nodes"}}
	}
	asked := apitest.NewCSR(d.T, fmt.Sprintf("case-%d", n), signerOf(n), subject, apitest.NewKey(d.T))
	cfg := d.server.As(d.T, "alice")
	if tc.as != "" {
		cfg = d.server.As(d.T, tc.as, "system:masters")
	}
	return apitest.Create(d.T, apitest.Client(d.T, cfg), asked)
}

// follow follows the policies as the server does. They have not changed for a
// while.
func (d *decider) follow() {
	d.Helper()
	clock := clocktesting.NewFakePassiveClock(d.now.Add(-time.Minute))
	var err error
	d.policies, err = policies.New(policies.Config{API: d.server.Admin(d.T), Settings: policies.DefaultSettings(), BuiltIn: signer.Names(), Defined: true, Seals: &policies.Seals{}, Clock: clock})
	if err != nil {
		d.Fatal(err)
	}
	if d.reader, err = explain.Connect(d.server.Admin(d.T)); err != nil {
		d.Fatal(err)
	}
	d.checks = admission.New(d.policies, func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
		return true, nil
	})
	go d.policies.Run(d.Context())
	if !d.policies.WaitUntilKnown(d.Context()) {
		d.Fatal("the policies are not known")
	}
	clock.SetTime(d.now)
	files, err := policyset.Read(filepath.Join(d.dir, "policies"))
	if err != nil {
		d.Fatal(err)
	}
	d.set = files.Set()
}

func (d *decider) viewed(stored *csr) request.Request { return request.FromCSR(stored) }

// notes returns what the audit log has of a decision.
func notes(s said) map[string]string {
	notes := map[string]string{"outcome": string(s.Outcome)}
	if s.Policy != "" {
		notes["policy"] = s.Policy
	}
	var at []string
	for _, v := range s.Violations {
		if v.Exception == "" {
			at = append(at, v.Policy+":"+v.At)
		}
	}
	if len(at) > 0 {
		notes["violations"] = strings.Join(at, ",")
	}
	return notes
}

func (d *decider) wantOfAdmission(t *testing.T, stored *csr, want said) {
	t.Helper()
	created := d.checks.Create(t.Context(), certificatesv1.Resource("certificatesigningrequests"), d.viewed(stored), true)
	approve := admission.OfCSR(with(stored, approval(&voter{name: "bob"})), stored, "approval")
	approve.User, approve.MayApprove = quorum.Voter{Person: quorum.Person{Username: "bob", Groups: []string{"pki"}}}, func(context.Context) error { return nil }
	conditions, approved := d.checks.Mutate(t.Context(), approve)
	for stage, answer := range map[string]admission.Outcome{"create": created, "approve": approved} {
		if stage == "approve" && want.Outcome == v1alpha1.OutcomeNeedPeople {
			if conditions != nil {
				t.Errorf("an approval without a key that seals it: %v", conditions)
			}
			continue
		}
		if stage == "create" && stored.Spec.SignerName == kubeletSigner {
			continue // a kubelet's requests are not refused
		}
		if diff := gocmp.Diff(notes(want), answer.Audit); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stage, diff)
		}
		refused := want.Outcome == v1alpha1.OutcomeDeny || want.Outcome == v1alpha1.OutcomeWait && stage == "approve"
		if refused != (answer.Refusal != nil) || refused && !strings.Contains(answer.Refusal.Error(), want.Message) {
			t.Errorf("%s: %v, want %v: %s", stage, answer.Refusal, refused, want.Message)
		}
	}
}

var errSigned = errors.New("the signer was called")

func (d *decider) wantOfSigner(t *testing.T, stored *csr, want said) {
	t.Helper()
	sign := d.policies.Guard(func(context.Context, request.Request, signer.Permission, time.Time) (*signer.Issued, error) {
		return nil, errSigned
	}, policies.Approved{})
	_, err := sign(t.Context(), d.viewed(stored), d.now)
	var denied *quorum.Refusal
	var pending *signer.PendingError
	switch want.Outcome {
	case v1alpha1.OutcomeApprove, v1alpha1.OutcomeLeave:
		if !errors.Is(err, errSigned) {
			t.Errorf("sign: %v", err)
		}
	case v1alpha1.OutcomeDeny:
		if !errors.As(err, &denied) || denied.Reason != want.Reason || denied.Message != want.Message {
			t.Errorf("sign: %v, want %s: %s", err, want.Reason, want.Message)
		}
	default:
		if !errors.As(err, &pending) {
			t.Errorf("sign: %v", err)
		}
	}
}

func (d *decider) wantOfExplain(t *testing.T, stored *csr, want said) {
	t.Helper()
	found, err := explain.CertificateSigningRequest(t.Context(), d.reader, explain.Query{Name: stored.Name, Now: d.now})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, c := range found.Checks {
		texts[c.Name] = c.Message
	}
	headline := map[v1alpha1.DecisionOutcome]string{
		v1alpha1.OutcomeApprove: "approved by policy " + want.Policy, v1alpha1.OutcomeDeny: fmt.Sprintf("denied (%s): %s", want.Reason, want.Message),
		v1alpha1.OutcomeNeedPeople: "people must approve it: " + want.Message, v1alpha1.OutcomeWait: "cannot be decided yet: " + want.Message,
		v1alpha1.OutcomeLeave: "no policy decides: any user with the right may approve it",
	}[want.Outcome]
	if texts["policies"] != headline {
		t.Errorf("explain: %q, want %q", texts["policies"], headline)
	}
	for _, v := range want.Violations {
		if v.At == "effect" { // that of a DenyRest, which the headline has
			continue
		}
		if text := fmt.Sprintf("%s (%s, %s)", v.Message, v.Reason, v.At); !strings.Contains(texts["policy "+v.Policy], text) {
			t.Errorf("explain: %q, want %q", texts["policy "+v.Policy], text)
		}
	}
}

// source has the facts of the server for the command line.
func (d *decider) source() *facts.Finder {
	return &facts.Finder{Objects: d.objects, Access: policies.Reviews(d.objects), Controllers: facts.Controllers()}
}

// file writes a request as kubectl get -o yaml does.
func (d *decider) file(t *testing.T, stored *csr) string {
	t.Helper()
	return d.write(stored.Name+".yaml", encoded(t, stored))
}

func encoded(t *testing.T, stored *csr) []byte {
	t.Helper()
	object := stored.DeepCopy()
	object.SetGroupVersionKind(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (d *decider) wantOfCheck(t *testing.T, stored *csr, want said) {
	t.Helper()
	var out bytes.Buffer
	err := check.Run(t.Context(), check.Config{Files: []string{d.file(t, stored)}, Set: d.set, Facts: d.source(), OwnSigner: stored.Spec.SignerName == signerName, Now: d.now, Output: "json", Stdout: &out})
	d.wantSame(t, "policy check", out.Bytes(), err, want)
}

// wantSame compares a decision in JSON.
func (d *decider) wantSame(t *testing.T, command string, data []byte, err error, want said) {
	t.Helper()
	var got v1alpha1.PolicyDecision
	if decoding := json.Unmarshal(data, &got); decoding != nil {
		t.Fatalf("%s: %v, %v: %s", command, err, decoding, data)
	}
	if diff := gocmp.Diff(want, saidBy(&got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", command, diff)
	}
}

// wantOfReplay replays the line of the decision log from the facts in it.
func (d *decider) wantOfReplay(t *testing.T, stored *csr, was *policies.Decision, want said) {
	t.Helper()
	line, err := json.Marshal(decisionlog.Line(was.PolicyDecision, &was.Input, encoded(t, stored), true))
	if err != nil {
		t.Fatal(err)
	}
	log := d.write(stored.Name+".log", append(line, '\n'))
	var out, report bytes.Buffer
	err = replay.Run(t.Context(), replay.Config{Logs: []string{log}, New: d.set, Each: true, FailOn: replay.FailOnAny, Workers: 1, Now: func() time.Time { return d.now }, Stdout: &out, Stderr: &report})
	if err != nil {
		t.Fatalf("policy replay: %v: %s", err, out.String())
	}
	var pair struct{ New json.RawMessage }
	if err := json.Unmarshal(out.Bytes(), &pair); err != nil {
		t.Fatal(err)
	}
	d.wantSame(t, "policy replay", pair.New, nil, want)
}

// wantOfReplayToday replays the stored request with the facts of the server.
func (d *decider) wantOfReplayToday(t *testing.T, stored *csr, want said) {
	t.Helper()
	var out, report bytes.Buffer
	err := replay.Run(t.Context(), replay.Config{
		Dirs: []string{d.file(t, stored)}, Old: d.set, New: d.set, Today: d.source(), OwnSigner: stored.Spec.SignerName == signerName,
		Each: true, FailOn: replay.FailOnNone, Workers: 1, Now: func() time.Time { return d.now }, Stdout: &out, Stderr: &report,
	})
	if err != nil {
		t.Fatalf("policy replay of a file: %v: %s", err, report.String())
	}
	var pair struct{ New json.RawMessage }
	if err := json.Unmarshal(out.Bytes(), &pair); err != nil {
		t.Fatal(err)
	}
	d.wantSame(t, "policy replay of a file", pair.New, nil, want)
}

// wantOfTest expects in a PolicyTest what was decided.
func (d *decider) wantOfTest(t *testing.T, n int, stored *csr, want said) {
	t.Helper()
	expect := v1alpha1.PolicyTestExpectation{Outcome: want.Outcome, Reason: want.Reason, Policy: want.Policy, Violations: []v1alpha1.PolicyTestViolation{}}
	for _, v := range want.Violations {
		expect.Violations = append(expect.Violations, v1alpha1.PolicyTestViolation{Policy: v.Policy, At: v.At, Reason: v.Reason, Field: v.Field, Value: v.Value, Exception: v.Exception})
	}
	namespace := &corev1.Namespace{}
	if err := d.objects.Get(t.Context(), client.ObjectKey{Name: "default"}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	known, err := yaml.Marshal(namespace)
	if err != nil {
		t.Fatal(err)
	}
	d.write("facts.yaml", append(known, "---\n{apiVersion: v1, kind: Node, metadata: {name: n2}}\n"...))
	d.file(t, stored)
	ask := v1alpha1.PolicyTestRequest{OwnSigner: stored.Spec.SignerName == signerName}
	test := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PolicyTest", "policies": []string{fmt.Sprintf("policies/%d-*.yaml", n)}, "facts": []string{"facts.yaml"},
		"access": []v1alpha1.PolicyTestAccess{
			{User: "alice", Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
			{User: "system:bootstrap:abcdef", Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "nodeclient"},
		},
		"time":  d.now.UTC().Format(time.RFC3339),
		"cases": []any{map[string]any{"name": "the request", "request": stored.Name + ".yaml", "ask": ask, "expect": expect}},
	}
	data, err := yaml.Marshal(test)
	if err != nil {
		t.Fatal(err)
	}
	path := d.write(stored.Name+"_test.yaml", data)
	var out bytes.Buffer
	if err := cases.Run(t.Context(), cases.Config{Path: path, Now: time.Now, Stdout: &out}); err != nil {
		t.Errorf("policy test: %v\n%s", err, out.String())
	}
}
