package publishlists_test

import (
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// rotate replaces the generated CA of a Signer, and returns the list of the next CA.
func (f *fixture) rotate(t *testing.T, name, request string) inventoryv1alpha1.RevocationList {
	t.Helper()
	signer := &v1alpha1.Signer{}
	apitest.Eventually(t, "its status has the CA", func() bool { // the list may be there first
		if err := f.api.Get(t.Context(), types.NamespacedName{Name: name}, signer); err != nil {
			t.Fatal(err)
		}
		return signer.Status.CA != nil
	})
	before := signer.Status.CA.Fingerprint
	was := client.MergeFrom(signer.DeepCopy())
	metav1.SetMetaDataAnnotation(&signer.ObjectMeta, "certplane.dev/rotate-ca", request)
	if err := f.api.Patch(t.Context(), signer, was); err != nil {
		t.Fatal(err)
	}
	var next inventoryv1alpha1.RevocationList
	apitest.Eventually(t, "the next CA has a list", func() bool {
		var all inventoryv1alpha1.RevocationListList
		if err := f.api.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		if err := f.api.Get(t.Context(), types.NamespacedName{Name: name}, signer); err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(all.Items, func(l inventoryv1alpha1.RevocationList) bool {
			return pki.Fingerprint(authority(t, l)) == signer.Status.CA.Fingerprint
		})
		if n >= 0 {
			next = all.Items[n]
		}
		return n >= 0 && signer.Status.CA.Fingerprint != before
	})
	return next
}

// revokeUnder revokes a certificate of a CA by its serial number, and waits for the list.
func (f *fixture) revokeUnder(t *testing.T, name string, list inventoryv1alpha1.RevocationList, serial int64) {
	t.Helper()
	r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RevocationSpec{
		Certificates: []v1alpha1.RevokedCertificate{{SerialNumber: strconv.FormatInt(serial, 16), AuthorityKeyID: hex.EncodeToString(authority(t, list).SubjectKeyId)}},
		Reason:       "KeyCompromise",
	}}
	if err := f.api.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	f.until(t, list, serial)
	apitest.Eventually(t, "the Revocation is listed", func() bool {
		if err := f.api.Get(t.Context(), types.NamespacedName{Name: name}, r); err != nil {
			t.Fatal(err)
		}
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.RevocationListed)
	})
}

// A generated CA that was replaced still signs lists, and nothing else, until the last of its
// certificates has ended.
func TestFormerCA(t *testing.T) {
	f := start(t, func(cfg *server.Config) { cfg.DeclaredSigners.Propagation.Duration = 0 })
	first := f.declare(t, "web")
	second := f.rotate(t, "web", "1")
	f.rotate(t, "web", "2")
	f.revokeUnder(t, "first", first, 4711)
	f.revokeUnder(t, "second", second, 4712)

	f.Restart(t)
	f.connect(t)
	f.revokeUnder(t, "restarted", first, 4713)
	if n := len(f.content(t, first).RevokedCertificateEntries); n != 2 {
		t.Errorf("%d entries", n)
	}

	secrets := apitest.Client(t, f.Admin(t)).CoreV1().Secrets("kube-system")
	key, annotation := "former-"+first.Name+".key", "certplane.dev/former-"+first.Name
	secret, err := secrets.Get(t.Context(), "signer-web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signer := &v1alpha1.Signer{}
	if err := f.api.Get(t.Context(), types.NamespacedName{Name: "web"}, signer); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data) != 6 || len(secret.Data[key]) == 0 || slices.Contains(slices.Collect(maps.Values(secret.Annotations)), "") {
		t.Errorf("the Secret has the keys %v and the annotations %v", slices.Sorted(maps.Keys(secret.Data)), secret.Annotations)
	}
	until, err := time.Parse(time.RFC3339, secret.Annotations[annotation])
	former := signer.Status.FormerCAs
	if err != nil || len(former) != 2 || until.Sub(former[1].TrustedUntil.Time).Abs() > 2*time.Second {
		t.Errorf("the key is kept until %v (%v), the former CAs are %+v", until, err, former)
	}
	patch := `{"metadata":{"annotations":{"` + annotation + `":"` + time.Now().Add(-time.Second).Format(time.RFC3339) + `"}}}`
	if _, err := secrets.Patch(t.Context(), secret.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the key of the ended CA is gone, and that of the other one is not", func() bool {
		secret, err := secrets.Get(t.Context(), "signer-web", metav1.GetOptions{})
		return err == nil && formers(secret) == "former-"+second.Name+".crt former-"+second.Name+".key"
	})
}

func formers(secret *corev1.Secret) string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(secret.Data)), func(key string) bool { return !strings.HasPrefix(key, "former-") })
	return strings.Join(keys, " ")
}
