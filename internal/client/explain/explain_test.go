package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/approval"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newFacts returns the facts of a kubelet's first request, a second old,
// without any problem.
func newFacts(t *testing.T) *facts {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := pki.NewRequest(pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &facts{
		csr: &csr{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-1", CreationTimestamp: metav1.NewTime(now.Add(-time.Second))},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem, SignerName: approval.SignerName, Username: "system:bootstrap:abcdef",
				Groups: []string{"system:bootstrappers", "system:authenticated"},
				Usages: []certificatesv1.KeyUsage{"digital signature", "client auth"},
			},
		},
		mayApprove: Yes, signers: []string{"kube-system/csr-signer"},
		permitted: []Result{Yes}, Query: Query{Kubectl: []string{"kubectl"}, Flags: []string{"--kubeconfig", "me"}, Now: now},
	}
}

// complete adds the facts that gather derives from the request alone.
func (f *facts) complete() *facts {
	f.objection = objection(f.csr, f.Now)
	f.known, _ = approval.Policy{}.Recognise(f.csr)
	if len(f.csr.Status.Conditions) > 0 || len(f.known) == 0 {
		f.known, f.permitted = nil, nil
	}
	return f
}

func conditions(list ...condition) func(*facts) {
	return func(f *facts) { f.csr.Status.Conditions = list }
}

// since returns a condition that is an hour old.
func since(kind certificatesv1.RequestConditionType, reason, message string) condition {
	return condition{Type: kind, Status: "True", Reason: reason, Message: message, LastUpdateTime: metav1.NewTime(now.Add(-time.Hour))}
}

func TestExplain(t *testing.T) {
	approved := since("Approved", "KubectlApprove", "by hand")
	fresh := approved
	fresh.LastUpdateTime = metav1.NewTime(now.Add(-time.Second))
	foreign := func(f *facts) { f.csr.Spec.SignerName = "example.com/signer" }
	tests := []struct {
		reason  string
		change  []func(*facts)
		verdict string
		checks  string
		next    string // a part of the next steps
	}{
		{
			reason: "all goes by itself", verdict: "waits for approval, which needs no person where an approver runs",
			checks: "request Yes, kubelet Yes, permission Yes, approval Open, profile Yes, signer Yes, signing Open",
			next:   "An approver acts immediately where one runs",
		},
		{
			reason: "no approver acted", change: []func(*facts){func(f *facts) { f.csr.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }},
			verdict: "may be approved without a person, but for 60m no approver has done so",
			checks:  "request Yes, kubelet Yes, permission Yes, approval Open, profile Yes, signer Yes, signing Open",
			next:    "unless approve is switched off",
		},
		{
			reason: "a permission is missing", change: []func(*facts){func(f *facts) { f.permitted = []Result{No} }},
			verdict: "waits for a person to approve it, because its requester lacks a permission",
			checks:  "request Yes, kubelet Yes, permission No, approval Open, profile Yes, signer Yes, signing Open",
			next:    "To have such requests approved without a person:\n  kubectl --kubeconfig me create clusterrolebinding approve-nodeclient --clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient --group=system:bootstrappers",
		},
		{
			reason: "a permission is missing that the caller may not give", change: []func(*facts){func(f *facts) { f.permitted, f.mayGrant = []Result{No}, No }},
			verdict: "waits for a person to approve it, because its requester lacks a permission",
			checks:  "request Yes, kubelet Yes, permission No, approval Open, profile Yes, signer Yes, signing Open",
			next:    "To have such requests approved without a person, as a user who may grant it:\n  kubectl create clusterrolebinding approve-nodeclient ",
		},
		{
			reason: "a permission of another user", change: []func(*facts){func(f *facts) {
				f.permitted, f.csr.Spec.Groups, f.csr.Spec.Username = []Result{No}, nil, "it's me"
			}},
			verdict: "waits for a person to approve it, because its requester lacks a permission",
			checks:  "request Yes, kubelet Yes, permission No, approval Open, profile Yes, signer Yes, signing Open",
			next:    `'--user=it'\''s me'`,
		},
		{
			reason: "the second recogniser's permission is enough", change: []func(*facts){func(f *facts) {
				f.csr.Spec.Username, f.permitted = "system:node:n1", []Result{No, Yes}
			}},
			verdict: "waits for approval, which needs no person where an approver runs",
			checks:  "request Yes, kubelet Yes, permission Yes, approval Open, profile Yes, signer Yes, signing Open",
		},
		{
			reason: "the first one's is enough too", change: []func(*facts){func(f *facts) {
				f.csr.Spec.Username, f.permitted = "system:node:n1", []Result{Yes, No}
			}},
			verdict: "waits for approval, which needs no person where an approver runs",
			checks:  "request Yes, kubelet Yes, permission Yes, approval Open, profile Yes, signer Yes, signing Open",
		},
		{
			reason: "the caller may not ask", change: []func(*facts){func(f *facts) {
				f.permitted, f.mayApprove, f.signersUnknown, f.events.Unknown = []Result{Unknown}, No, true, "you may not list events"
			}},
			verdict: "waits for approval; you may not check whether that needs a person",
			checks:  "request Yes, kubelet Yes, permission Unknown, approval Open, profile Yes, signer Unknown, signing Open, events Unknown",
			next:    "A user with the permission decides this request:\n  certplane approve n1\n  certplane deny n1",
		},
		{
			reason: "no kubelet's request, and its signer's", change: []func(*facts){func(f *facts) { f.csr.Spec.Usages = []certificatesv1.KeyUsage{"server auth"} }},
			verdict: "waits for approval, and its signer would refuse it: usages did not match [client auth digital signature key encipherment]",
			checks:  "request Yes, kubelet No, approval Open, profile No, signer Yes, signing Open",
		},
		{
			reason: "for another signer", change: []func(*facts){func(f *facts) { f.csr.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName }},
			verdict: "waits for a person to approve or deny it",
			checks:  "request Yes, kubelet No, approval Open, profile Yes, signer Yes, signing Open",
			next:    "To decide this request:\n  certplane approve n1 --kubeconfig me\n  certplane deny n1 --kubeconfig me",
		},
		{
			reason: "for a foreign signer", change: []func(*facts){foreign, func(f *facts) { f.signers = nil }},
			verdict: "waits for a person to approve or deny it; no service account of certplane or Kubernetes may sign for example.com/signer: another program must sign",
			checks:  "request Yes, kubelet No, approval Open, profile Unknown, signer No, signing Open",
		},
		{
			reason: "unreadable", change: []func(*facts){func(f *facts) { f.csr.Spec.Request = []byte("x") }},
			verdict: "waits for approval, and its signer would refuse it: parsing the certificate request: ",
			checks:  "request No, kubelet No, approval Open, profile No, signer Yes, signing Open",
		},
		{
			reason: "approved a moment ago, for a signer that no account signs for", change: []func(*facts){foreign, conditions(fresh), func(f *facts) { f.signers = nil }},
			verdict: "is approved, and no service account of certplane or Kubernetes may sign for example.com/signer: another program must sign",
			checks:  "request Yes, kubelet No, approval Yes, profile Unknown, signer No, signing Open",
			next:    "Check the signer's name",
		},
		{
			reason: "for a signer that may be declared, whom the caller may not know", change: []func(*facts){foreign, conditions(fresh), func(f *facts) { f.declarersUnknown = true }},
			verdict: "is approved and waits to be signed",
			checks:  "request Yes, kubelet No, approval Yes, profile Unknown, signer Yes, signing Open",
		},
		{
			reason: "approved a moment ago", change: []func(*facts){conditions(fresh)},
			verdict: "is approved and waits to be signed",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signer Yes, signing Open",
		},
		{
			reason: "approved, and no signer", change: []func(*facts){conditions(approved)},
			verdict: "is approved, and its signer has not answered for 60m",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signer Yes, signing Open",
			next:    "with a CA for this signer",
		},
		{
			reason: "approved, and no foreign signer", change: []func(*facts){foreign, conditions(approved)},
			verdict: "is approved, and its signer has not answered for 60m",
			checks:  "request Yes, kubelet No, approval Yes, profile Unknown, signer Yes, signing Open",
			next:    "Check the signer's name",
		},
		{
			reason: "approved, and the signer cannot", change: []func(*facts){conditions(approved, since("SigningDelayed", "SignerExpired", "the signer has expired"))},
			verdict: "is approved, and its signer cannot sign: the signer has expired",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signer Yes, signing Open, SigningDelayed Open",
			next:    "The signer keeps retrying.",
		},
		{
			reason: "approved, and the CA of the Signer has expired", change: []func(*facts){
				conditions(approved, since("SigningDelayed", "SignerUnavailable", "the signer cannot sign at present")),
				func(f *facts) {
					f.csr.Spec.SignerName = "example.com/old"
					f.declared = &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: v1alpha1.SignerSpec{SignerName: "example.com/old"}}
					f.declared.Status.Conditions = []metav1.Condition{{Type: v1alpha1.Ready, Status: metav1.ConditionFalse, Reason: "CAExpired", Message: "the CA has expired"}}
				},
			},
			verdict: "is approved, and its signer cannot sign: old does not sign for example.com/old: the CA has expired (CAExpired)",
			checks:  "request Yes, kubelet No, approval Yes, profile Yes, signer No, signing Open, SigningDelayed Open",
			next:    "certplane explain signer old",
		},
		{
			reason: "approved in vain", change: []func(*facts){conditions(fresh), func(f *facts) { f.csr.Spec.Usages = []certificatesv1.KeyUsage{"any"} }},
			verdict: "is approved, and its signer will refuse it: usages did not match ",
			checks:  "request Yes, kubelet No, approval Yes, profile No, signer Yes, signing Open",
		},
		{
			reason: "denied", change: []func(*facts){conditions(since("Denied", "Policy", "not today"))},
			verdict: "was denied: not today (Policy)",
			checks:  "request Yes, kubelet Yes, approval No, profile Yes, signing No",
			next:    "This is final.",
		},
		{
			reason: "failed after approval", change: []func(*facts){conditions(approved, since("Failed", "SignerValidationFailure", ""))},
			verdict: "failed at its signer: SignerValidationFailure",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signing No",
			next:    "This is final.",
		},
		{
			reason: "told by a controller of others", change: []func(*facts){conditions(condition{Type: "Seen", Status: "False"})},
			verdict: "waits for a person to approve or deny it",
			checks:  "request Yes, kubelet Yes, approval Open, profile Yes, signer Yes, signing Open, Seen No",
		},
		{
			reason: "issued", change: []func(*facts){conditions(approved), issue(t)},
			verdict: "is issued: its certificate is valid until 2027-03-01T11:55:00Z",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signing Yes",
			next:    "kubectl --kubeconfig me get csr n1 -o 'jsonpath={.status.certificate}'",
		},
		{
			reason: "expired", change: []func(*facts){conditions(approved), issue(t), func(f *facts) { f.Now = now.Add(9000 * time.Hour) }},
			verdict: "was issued, and its certificate expired on 2027-03-01T11:55:00Z",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signing Yes",
		},
		{
			reason: "issued with something that is not a certificate", change: []func(*facts){conditions(approved), func(f *facts) { f.csr.Status.Certificate = []byte("x") }},
			verdict: "has a certificate that cannot be read",
			checks:  "request Yes, kubelet Yes, approval Yes, profile Yes, signing Yes",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFacts(t)
			for _, change := range tc.change {
				change(f)
			}
			e := f.complete().explain()
			if !strings.HasPrefix(e.Verdict, "n1 "+tc.verdict) {
				t.Errorf("verdict is %q, want %q", e.Verdict, tc.verdict)
			}
			if diff := cmp.Diff(tc.checks, summary(e.Checks)); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
			if got := typed(e.Next); !strings.Contains(got, tc.next) {
				t.Errorf("next is\n%s, want %q", got, tc.next)
			}
		})
	}
}

// typed returns steps as people read them.
func typed(steps []Step) string {
	var lines []string
	for _, s := range steps {
		lines = append(lines, s.Text)
		for _, command := range s.Commands {
			lines = append(lines, "  "+print.CommandLine(command...))
		}
	}
	return strings.Join(lines, "\n")
}

func summary(checks []Check) string {
	var all []string
	for _, c := range checks {
		all = append(all, c.Name+" "+string(c.Result))
	}
	return strings.Join(all, ", ")
}

// issue signs the request for a year.
func issue(t *testing.T) func(*facts) {
	return func(f *facts) {
		profile, err := signer.Lookup(f.csr.Spec.SignerName)
		if err != nil {
			t.Fatal(err)
		}
		f.csr.Status.Certificate = sign(t, profile, f.csr)
	}
}

func TestStrictApprover(t *testing.T) {
	f := newFacts(t)
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	f.csr.Spec.Request, err = pki.NewRequest(pki.Subject{CommonName: "system:node:", Organizations: []string{"system:nodes"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	checks := f.complete().explain().Checks
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "kubelet" })
	if got := checks[i]; got.Result != Yes || !strings.Contains(got.Message, "not where approval.strict is set: subject common name has no valid node name") {
		t.Errorf("got %+v", got)
	}
}

// Events are shown in the order in which they were last seen.
func TestEventTime(t *testing.T) {
	at := func(hour int) time.Time { return now.Add(time.Duration(hour) * time.Hour) }
	tests := []struct {
		reason string
		event  eventsv1.Event
		want   time.Time
	}{
		{"a series", eventsv1.Event{Series: &eventsv1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(3))}, EventTime: metav1.NewMicroTime(at(1))}, at(3)},
		{"one", eventsv1.Event{EventTime: metav1.NewMicroTime(at(1))}, at(1)},
		{"of the older API", eventsv1.Event{DeprecatedLastTimestamp: metav1.NewTime(at(2))}, at(2)},
		{"without a time", eventsv1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(4))}}, at(4)},
	}
	for _, tc := range tests {
		if got := apievents.LastSeen(tc.event); !got.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
		}
	}
}
