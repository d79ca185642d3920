package explain_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// memory is an API with one request. Its requester has no permissions; the
// caller and the signers have all.
type memory struct {
	explain.Reader
	csr    *certificatesv1.CertificateSigningRequest
	events []eventsv1.Event
}

func (m memory) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	m.csr.DeepCopyInto(into.(*certificatesv1.CertificateSigningRequest))
	return nil
}

func (m memory) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if events, ok := list.(*eventsv1.EventList); ok { // there are no policies
		events.Items = m.events
	}
	return nil
}

func (m memory) May(_ context.Context, user authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	return user.User == "system:serviceaccount:kube-system:csr-signer", nil
}

func (m memory) MayI(context.Context, authorizationv1.ResourceAttributes) (bool, error) {
	return true, nil
}

func TestText(t *testing.T) {
	csr := apitest.NewCSR(t, "n1", kubeletClient, pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}, apitest.NewKey(t))
	csr.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
	csr.Spec.ExpirationSeconds = ptr.To[int32](5400)
	csr.Spec.Username = "mallory\x1b[2J"
	event := eventsv1.Event{
		EventTime: metav1.NewMicroTime(now.Add(-20 * time.Second)), Type: "Warning", Reason: "NotPermitted",
		ReportingController: "certplane.dev/csr-approver", Note: "Left to a person\nfor now",
	}
	want := `n1 waits for a person to approve it, because its requester lacks a permission

Request
  signer     kubernetes.io/kube-apiserver-client-kubelet
  requester  mallory\x1b[2J
  groups     none
  subject    CN=system:node:n1,O=system:nodes
  names      none
  usages     digital signature, client auth
  key        ECDSA P-256
  lifetime   1h30m0s
  created    1s ago

Checks
  yes   request     can be read, and is signed with its own key
  yes   kubelet     a kubelet's request for its client certificate, recognised by nodeclient
  no    permission  user "mallory\x1b[2J" may not create certificatesigningrequests/nodeclient
  open  approval    not decided yet; you may decide
  yes   profile     kubernetes.io/kube-apiserver-client-kubelet has no objection, unless it is set to be stricter than Kubernetes
  yes   signer      may sign: kube-system/csr-signer
  open  signing     waits for approval

Events
  20s ago  NotPermitted  csr-approver  Left to a person\nfor now

Next
  To have such requests approved without a person:
    kubectl --kubeconfig me create clusterrolebinding approve-nodeclient --clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient "$(printf '--user=mallory\033[2J')"
  To decide this request:
    certplane approve n1 --kubeconfig me
    certplane deny n1 --kubeconfig me
`
	var out bytes.Buffer
	err := verb.Run(t.Context(), verb.Config{
		Name: "n1", Kubectl: []string{"kubectl"}, Flags: []string{"--kubeconfig", "me"}, Now: func() time.Time { return now }, Stdout: &out,
		Connect: func() (explain.Reader, error) { return memory{csr: csr, events: []eventsv1.Event{event}}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The server's clock can be ahead of ours.
func TestAgo(t *testing.T) {
	for then, want := range map[time.Time]string{now.Add(-time.Minute): "60s ago", now.Add(time.Minute): "0s ago"} {
		if got := print.Ago(now, then); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The commands to copy take a name that looks like a flag as a name.
func TestNameLikeAFlag(t *testing.T) {
	const name = "--kubeconfig=evil"
	csr := apitest.NewCSR(t, name, kubeletClient, pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}, apitest.NewKey(t))
	var out bytes.Buffer
	err := verb.Run(t.Context(), verb.Config{
		Name: name, Kubectl: []string{"kubectl"}, Flags: []string{"--context", "me"}, Now: func() time.Time { return now }, Stdout: &out,
		Connect: func() (explain.Reader, error) { return memory{csr: csr}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, next, _ := strings.Cut(out.String(), "\nNext\n")
	for _, want := range []string{"certplane approve --context me -- " + name + "\n", "certplane deny --context me -- " + name + "\n"} {
		if !strings.Contains(next, want) {
			t.Errorf("the next steps lack %q:\n%s", want, next)
		}
	}
}
