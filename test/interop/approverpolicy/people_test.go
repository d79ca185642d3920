package approverpolicy

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cmctl/v2/pkg/approve"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/policy/quorum"
	certplane "github.com/certplane/certplane/internal/run/server"
)

const twoPeople = `{effect: Limit, match: {kinds: [CertificateRequest], signers: [clusterissuers.cert-manager.io/people]}, approval: {mode: People, people: {count: 2}}}`

// approver is a person, with the ways that there are to approve a
// CertificateRequest.
type approver struct {
	*testing.T
	config     *rest.Config
	kubeconfig string
}

// ways are what people, and programs in their name, approve with. Each returns
// what it says.
var ways = map[string]func(a approver, cr *cmv1.CertificateRequest) string{
	"cmctl approve": func(a approver, cr *cmv1.CertificateRequest) string {
		return a.run(func(streams genericiooptions.IOStreams) *cobra.Command {
			return approve.NewCmdApprove(a.Context(), streams)
		}, cr)
	},
	"certplane approve": func(a approver, cr *cmv1.CertificateRequest) string { return a.run(cli.NewApprove, cr) },
	// As approver-policy does: forced, with the one condition alone.
	"server-side apply": approver.apply,
}

func (a approver) run(command func(genericiooptions.IOStreams) *cobra.Command, cr *cmv1.CertificateRequest) string {
	a.Helper()
	var out bytes.Buffer
	cmd := command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	cmd.SetArgs([]string{"--kubeconfig", a.kubeconfig, "--namespace", cr.Namespace, cr.Name})
	if err := cmd.ExecuteContext(a.Context()); err != nil {
		a.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

func (a approver) apply(cr *cmv1.CertificateRequest) string {
	a.Helper()
	applied := &cmv1.CertificateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cr.Namespace, Name: cr.Name},
		Status: cmv1.CertificateRequestStatus{Conditions: []cmv1.CertificateRequestCondition{{
			Type: "Approved", Status: cmmeta.ConditionTrue, Reason: "policy.cert-manager.io", Message: "Approved", LastTransitionTime: new(metav1.Now()),
		}}},
	}
	text := must(json.Marshal(map[string]any{
		"apiVersion": applied.APIVersion, "kind": applied.Kind, "metadata": map[string]any{"name": cr.Name, "namespace": cr.Namespace},
		"status": map[string]any{"conditions": applied.Status.Conditions},
	}))
	api, err := client.New(a.config, client.Options{Scheme: scheme(a.T)})
	if err != nil {
		a.Fatal(err)
	}
	err = api.Status().Patch(a.Context(), applied, client.RawPatch("application/apply-patch+yaml", text), client.FieldOwner("approver-policy"), client.ForceOwnership)
	if err != nil {
		a.Fatal(err)
	}
	return ""
}

// Two people approve a CertificateRequest, with unmodified programs and by
// server-side apply. Neither of them can do so alone by approving again.
func TestPeople(t *testing.T) {
	w := newWorld(t, func(cfg *certplane.Config) { cfg.Controllers = []string{"*"} })
	w.create(w.server.ClientCASecret(t, "cert-manager", "ca"))
	w.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "people"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "ca"}}}})
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "two-people"}}
	if err := yaml.UnmarshalStrict([]byte(twoPeople), &p.Spec); err != nil {
		t.Fatal(err)
	}
	w.declare(p)
	alice, bob := w.approver("alice"), w.approver("bob")
	for name, approve := range ways {
		t.Run(name, func(t *testing.T) {
			w.t, alice.T, bob.T = t, t, t
			issuer := cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: "people"}
			cr := newRequest(strings.ReplaceAll(name, " ", "-"), issuer, "a.example.com", keys()[2])
			w.create(cr)
			w.awaits(cr, "0 of 2 approvals")
			for range 2 {
				if said := approve(alice, cr); strings.HasPrefix(said, "Approved CertificateRequest") && name == "certplane approve" {
					t.Errorf("a vote is reported as %q", said)
				}
				w.awaits(cr, "1 of 2 approvals")
				if votes := votesOn(cr); len(votes) != 1 || !strings.HasPrefix(votes[0], "alice ") {
					t.Errorf("votes %q", votes)
				}
				if owners := ownersOfApproval(cr); len(owners) > 0 {
					t.Errorf("%q own the condition that is not there: their next apply would change nothing", owners)
				}
			}
			approve(bob, cr)
			w.get(cr)
			if !certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved) || len(votesOn(cr)) != 2 || len(ownersOfApproval(cr)) != 1 {
				t.Fatalf("after both: %+v, owned by %q", cr.Status.Conditions, ownersOfApproval(cr))
			}
			apitest.Eventually(t, "there is a certificate", func() bool { w.get(cr); return len(cr.Status.Certificate) > 0 })
		})
	}
}

// awaits waits until a request reports the number of its approvals by people.
func (w *world) awaits(cr *cmv1.CertificateRequest, message string) {
	w.t.Helper()
	apitest.Eventually(w.t, "it says "+message, func() bool {
		w.get(cr)
		c := certmanager.RequestCondition(cr, quorum.AwaitingApproval)
		return c != nil && strings.HasPrefix(c.Message, message)
	})
	if certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved) {
		w.t.Fatalf("approved by one person: %+v", cr.Status.Conditions)
	}
}

// votesOn returns the messages of the votes on a request.
func votesOn(cr *cmv1.CertificateRequest) (votes []string) {
	for _, c := range cr.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "certplane.dev/approval-") {
			votes = append(votes, c.Message)
		}
	}
	return votes
}

// ownersOfApproval returns the managers of the condition Approved.
func ownersOfApproval(cr *cmv1.CertificateRequest) (owners []string) {
	for _, entry := range cr.ManagedFields {
		if bytes.Contains(must(json.Marshal(entry.FieldsV1)), []byte(`k:{\"type\":\"Approved\"}`)) {
			owners = append(owners, entry.Manager)
		}
	}
	return owners
}

// approver returns a person who may approve CertificateRequests.
func (w *world) approver(name string) approver {
	w.t.Helper()
	w.server.Grant(w.t, name,
		rule([]string{"get", "patch", "update"}, "cert-manager.io", "certificaterequests", "certificaterequests/status"),
		rule([]string{"approve"}, "cert-manager.io", "signers"))
	a := approver{w.t, w.server.Login(w.t, name), filepath.Join(w.t.TempDir(), "kubeconfig")}
	config := w.kubeconfig(&clientcmdapi.AuthInfo{ClientCertificateData: a.config.CertData, ClientKeyData: a.config.KeyData})
	if err := clientcmd.WriteToFile(config, a.kubeconfig); err != nil {
		w.t.Fatal(err)
	}
	return a
}
