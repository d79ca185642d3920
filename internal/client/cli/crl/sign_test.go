package crl_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/crl"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

const listsPath = "/apis/inventory.certplane.dev/v1alpha1/revocationlists"

// The list of a CA whose key the server does not have is signed elsewhere: first it has none,
// as after an upgrade.
func TestSign(t *testing.T) {
	s := apitest.Start(t)
	root := s.ClientRoot(t)
	name := revocation.ListID(root)
	core := func() rest.Interface { return apitest.Client(t, s.Admin(t)).CoreV1().RESTClient() }
	apitest.Eventually(t, "the root has a list", func() bool {
		return core().Get().AbsPath(listsPath, name, "content").Do(t.Context()).Error() == nil
	})
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	inPKI := func(name string) string { return filepath.Join(s.Config.DataDir, "pki", name) }
	if err := os.Rename(inPKI("client-ca-root.key"), file("root.key")); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	s.Unstore(t, s.Config.Etcd.Prefix+"/inventory.certplane.dev/lists/"+name)
	apitest.Eventually(t, "the root has no list", func() bool {
		return apierrors.IsNotFound(core().Get().AbsPath(listsPath, name, "content").Do(t.Context()).Error())
	})

	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(name, serial string) *v1alpha1.Revocation {
		t.Helper()
		r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RevocationSpec{
			Certificates: []v1alpha1.RevokedCertificate{{SerialNumber: serial, AuthorityKeyID: hex.EncodeToString(root.SubjectKeyId)}}, Reason: "Superseded",
		}}
		if err := api.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	listed := func(r *v1alpha1.Revocation, reason string) *metav1.Condition {
		t.Helper()
		var condition *metav1.Condition
		apitest.Eventually(t, "the Revocation is "+reason, func() bool {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
				t.Fatal(err)
			}
			condition = meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RevocationListed)
			return condition != nil && condition.Reason == reason
		})
		return condition
	}
	sign := func(as *rest.Config, ca, key string) (string, error) {
		var out bytes.Buffer
		err := crl.Sign(t.Context(), crl.SignConfig{CAFile: ca, KeyFile: key, Connect: func() (client.Client, error) { return certificates.Connect(as) }, Stdout: &out})
		return out.String(), err
	}
	content := func() *x509.RevocationList {
		t.Helper()
		der, err := core().Get().AbsPath(listsPath, name, "content").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			t.Fatal(err)
		}
		if err := list.CheckSignatureFrom(root); err != nil || !list.NextUpdate.Equal(root.NotAfter) {
			t.Errorf("the list ends on %v (%v)", list.NextUpdate, err)
		}
		return list
	}

	first := revoke("first", "1267")
	out, err := sign(s.Admin(t), inPKI("client-ca-root.crt"), file("root.key"))
	if err != nil || !strings.Contains(out, "CN=certplane client root CA") || !strings.Contains(out, "1267") || !strings.Contains(out, "Superseded") {
		t.Fatalf("signing: %v: %s", err, out)
	}
	list := content()
	if n := len(list.RevokedCertificateEntries); n != 1 {
		t.Errorf("%d entries", n)
	}
	listed(first, "Listed")

	// The next revocation needs another list, which is said.
	second := revoke("second", "1268")
	if c := listed(second, "NoList"); !strings.Contains(c.Message, "certplane crl sign") {
		t.Errorf("the condition is %+v", c)
	}

	// A draft that was made before it is refused, and so are other keys, signatures and users.
	get := func() *inventoryv1alpha1.RevocationList {
		t.Helper()
		data, err := core().Get().AbsPath(listsPath, name, "signature").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		draft := &inventoryv1alpha1.RevocationList{}
		if err := json.Unmarshal(data, draft); err != nil {
			t.Fatal(err)
		}
		return draft
	}
	put := func(draft *inventoryv1alpha1.RevocationList, tbs []byte) error {
		t.Helper()
		key, err := pki.ParsePrivateKey(must(os.ReadFile(file("root.key"))))
		if err != nil {
			t.Fatal(err)
		}
		by, err := pki.NewListAuthority(root, key)
		if err != nil {
			t.Fatal(err)
		}
		draft.Signature = signature(t, by, tbs)
		data, err := json.Marshal(draft)
		if err != nil {
			t.Fatal(err)
		}
		return core().Put().AbsPath(listsPath, name, "signature").SetHeader("Content-Type", "application/json").Body(data).Do(t.Context()).Error()
	}
	old := get()
	revoke("third", "1269")
	if err := put(old, old.Unsigned); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the list has changed: run the command again") {
		t.Errorf("with an entry less: %v", err)
	}
	fresh := get()
	if err := put(fresh, old.Unsigned); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "signature: not by the key of CN=certplane client root CA") {
		t.Errorf("with another signature: %v", err)
	}
	future := get()
	future.Number += 1e9
	if err := put(future, future.Unsigned); !apierrors.IsBadRequest(err) {
		t.Errorf("with a number of the future: %v", err)
	}
	stale := get()
	if _, err := sign(s.Admin(t), inPKI("client-ca-root.crt"), file("root.key")); err != nil {
		t.Fatal(err)
	}
	if err := put(stale, stale.Unsigned); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the list has changed: run the command again") {
		t.Errorf("after another one: %v", err)
	}
	if after := content(); after.Number.Cmp(list.Number) <= 0 || len(after.RevokedCertificateEntries) != 3 {
		t.Errorf("number %v after %v, %d entries", after.Number, list.Number, len(after.RevokedCertificateEntries))
	}
	for _, test := range []struct {
		ca, key, want string
	}{
		{inPKI("client-ca-root.crt"), inPKI("client-ca.key"), "private key does not belong to the CA certificate of \"CN=certplane client root CA\""},
		{file("none"), file("root.key"), "open " + file("none") + ": no such file"},
		{inPKI("client-ca-root.crt"), inPKI("client-ca-root.crt"), "--key "},
	} {
		if out, err := sign(s.Admin(t), test.ca, test.key); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error()+out, "BEGIN") {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	s.Grant(t, "reader", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"inventory.certplane.dev"}, Resources: []string{"revocationlists/signature"}})
	for _, user := range []string{"anybody", "reader"} {
		if _, err := sign(s.As(t, user), inPKI("client-ca-root.crt"), file("root.key")); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s signs: %v", user, err)
		}
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

// signature returns the signature of an unsigned list.
func signature(t *testing.T, by *pki.ListAuthority, tbs []byte) []byte {
	t.Helper()
	linted, err := by.LintEncoded(tbs)
	if err != nil {
		t.Fatal(err)
	}
	der, err := linted.Sign(t.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	return list.Signature
}
