package policies_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/run/server"
)

const fourEyesSigner = "example.com/four-eyes"

// fourEyes creates a policy that has two people approve, and returns clients of
// two who may.
func (f *fixture) fourEyes() (alice, bob kubernetes.Interface) {
	f.Helper()
	f.policy("four-eyes", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate, s.Match.Signers = v1alpha1.PolicyLimit, nil, []string{fourEyesSigner}
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}}
	})
	person := func(user string) kubernetes.Interface {
		f.server.Grant(f, user, apitest.Allow("get update", "certificatesigningrequests certificatesigningrequests/approval"), apitest.Allow("approve", "signers"))
		return apitest.Client(f, f.server.Login(f, user))
	}
	return person("alice"), person("bob")
}

// approve approves a request as it is stored now.
func (f *fixture) approve(as kubernetes.Interface, name string) {
	f.Helper()
	apitest.Eventually(f, name+" is approved, or has an approval", func() bool {
		stored, err := as.CertificatesV1().CertificateSigningRequests().Get(f.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		_, err = as.CertificatesV1().CertificateSigningRequests().UpdateApproval(f.Context(), name, apitest.With(stored, certificatesv1.CertificateApproved), metav1.UpdateOptions{})
		return err == nil
	})
}

// set returns the policies that are stored.
func (f *fixture) set() *certpolicy.Set {
	f.Helper()
	list := &v1alpha1.CertificatePolicyList{}
	if err := f.objects.List(f.Context(), list); err != nil {
		f.Fatal(err)
	}
	var policies []*v1alpha1.CertificatePolicy
	for i := range list.Items {
		policies = append(policies, &list.Items[i])
	}
	return certpolicy.NewSet(policies, nil)
}

// decisions makes the server decide at each stage.
func (f *fixture) decisions() {
	f.Helper()
	f.policy("web", func(*v1alpha1.CertificatePolicySpec) {})
	alice, bob := f.fourEyes()
	apitest.Issued(f, f.api, f.csr("web-1"))
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		refused := apitest.NewCSR(f, "db-1", signerName, pki.Subject{CommonName: "db-1"}, apitest.NewKey(f))
		if _, err := f.api.CertificatesV1().CertificateSigningRequests().Create(f.Context(), refused, metav1.CreateOptions{DryRun: dryRun}); !apierrors.IsForbidden(err) {
			f.Fatalf("creating db-1: %v", err)
		}
	}
	ca := apitest.Create(f, f.api, apitest.NewCSR(f, "ca-1", fourEyesSigner, pki.Subject{CommonName: "ca-1"}, apitest.NewKey(f)))
	f.approve(alice, ca.Name)
	f.condition(ca, "certplane.dev/awaiting-approval")
	f.approve(bob, ca.Name)
	f.condition(ca, "Approved")
}

func readLog(t *testing.T, path string) []v1alpha1.LoggedDecision {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []v1alpha1.LoggedDecision
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		var line v1alpha1.LoggedDecision
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatalf("%v in %s", err, s.Text())
		}
		lines = append(lines, line)
	}
	return lines
}

// outcomes returns what lines say of requests, sorted.
func outcomes(lines []v1alpha1.LoggedDecision) []string {
	var all []string
	for _, l := range lines {
		all = append(all, strings.Join([]string{l.Request.Name, string(l.Stage), string(l.Outcome)}, " "))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Each decision that has an effect is in the log once the server has stopped, and
// is made again from it.
func TestDecisionLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "decisions.log")
	f := start(t, func(c *server.Config) { c.Policy.DecisionLog.Path = path })
	f.decisions()
	set := f.set()
	f.server.Stop(t)

	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode is %v, error %v", info.Mode(), err)
	}
	lines := readLog(t, path)
	want := []string{
		"ca-1 Approve Approve", "ca-1 Approve NeedPeople", "ca-1 Approver NeedPeople",
		"db-1 Create Deny",
		"web-1 Approve Approve", "web-1 Approver Approve", "web-1 Sign Approve",
	}
	if diff := cmp.Diff(want, outcomes(lines)); diff != "" {
		t.Errorf("the log has other decisions: %s", diff)
	}
	refusals := 0
	for _, line := range lines {
		sameAgain(t, set, line)
		if line.Stage == v1alpha1.StageCreate {
			refusals++
		}
	}
	if refusals != 1 {
		t.Errorf("%d refusals at create are logged, want 1: none of a dry run", refusals)
	}
	var text bytes.Buffer
	err := replay.Run(t.Context(), replay.Config{
		Logs: []string{path}, New: set, FailOn: replay.FailOnAny, Workers: 2, Now: time.Now, Stdout: &text, Stderr: &text,
	})
	if err != nil || !strings.Contains(text.String(), "no decision differs") || strings.Contains(text.String(), "today's facts") {
		t.Errorf("replay: %v\n%s", err, text.String())
	}
}

// sameAgain decides again about what a line has.
func sameAgain(t *testing.T, set *certpolicy.Set, line v1alpha1.LoggedDecision) {
	t.Helper()
	recorded, err := decisionlog.Read(&line)
	if err != nil {
		t.Fatal(err)
	}
	in, _ := recorded.Needed(set.Needs(&recorded.Input.Request))
	again, was := set.Decide(in), line.PolicyDecision
	was.ID, was.Micros, was.Facts = again.ID, again.Micros, again.Facts
	got, _ := json.Marshal(again)
	if want, _ := json.Marshal(was); string(got) != string(want) {
		t.Errorf("%s is decided in another way: %s", line.ID, cmp.Diff(string(want), string(got)))
	}
}

// With names: Hashed, the log says nothing about who and what.
func TestHashedDecisionLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.log")
	f := start(t, func(c *server.Config) { c.Policy.DecisionLog.Path, c.Policy.DecisionLog.Names = path, "Hashed" })
	f.decisions()
	f.server.Stop(t)
	if lines := readLog(t, path); len(lines) < 6 {
		t.Fatalf("the log has %d lines", len(lines))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web-1", "db-1", "ca-1", "alice", "bob", "admin", "CERTIFICATE"} {
		if i := bytes.Index(data, []byte(name)); i >= 0 {
			t.Errorf("the log has %s: %s", name, data[max(0, i-80):i+20])
		}
	}
}
