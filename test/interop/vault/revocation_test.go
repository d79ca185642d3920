package vault

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// A Revocation is passed on. Without the permission, the Revocation says so, and the CA is told
// again; that it has revoked the certificate before is a success.
func TestRevocation(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		if err := v1alpha1.AddToScheme(w.kinds); err != nil {
			t.Fatal(err)
		}
		w.roleIssuer("vault")
		cert := w.issued(w.request("web", "vault"))
		w.allow(`path "` + w.pki + `/sign/*" { capabilities = ["update"] }`)
		condition := func(name string) *metav1.Condition {
			r := &v1alpha1.Revocation{}
			if err := w.admin.Get(t.Context(), client.ObjectKey{Name: w.namespace + name}, r); err != nil {
				t.Fatal(err)
			}
			return meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RevocationPassedOn)
		}
		revoke := func(name string) {
			w.create(&v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + name}, Spec: v1alpha1.RevocationSpec{
				Reason: "KeyCompromise", Certificates: []v1alpha1.RevokedCertificate{{Fingerprint: pki.Fingerprint(cert)}},
			}})
		}
		passedOn := func(name string) {
			eventually(t, "it is passed on", func() bool {
				c := condition(name)
				return c != nil && c.Status == metav1.ConditionTrue
			})
		}
		revoke("first")
		eventually(t, "Vault refuses", func() bool {
			c := condition("first")
			return c != nil && c.Reason == "NotPassedOn" && strings.Contains(c.Message, "permission denied")
		})
		w.allow(`path "` + w.pki + `/*" { capabilities = ["update"] }`)
		passedOn("first")
		serial := strings.ReplaceAll(fmt.Sprintf("% x", cert.SerialNumber.Bytes()), " ", ":")
		if at := fmt.Sprint(p.read(t, w.pki+"/cert/"+serial)["revocation_time"]); at == "0" || at == "<nil>" {
			t.Errorf("Vault says that it was revoked at %s", at)
		}
		revoke("again")
		passedOn("again")
	})
}
