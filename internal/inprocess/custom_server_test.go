package inprocess_test

import (
	"context"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/inprocess"
)

// network returns a client that comes over the network, for all kinds.
func (w world) network(t *testing.T) client.Client {
	t.Helper()
	made, err := client.New(w.server.Admin(t), client.Options{Scheme: w.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The objects of custom resources that are passed are those that are stored, whichever
// way they come: with defaults, without what is empty, and in seconds.
func TestPassedCustomResources(t *testing.T) {
	w, ctx := start(t), t.Context()
	outside := w.network(t)
	made := func(name string) *cmv1.Certificate {
		return &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: cmv1.CertificateSpec{
			SecretName: "web", DNSNames: []string{"web.example.com"}, IPAddresses: []string{}, IssuerRef: cmmeta.IssuerReference{Name: "ca"},
			Duration: &metav1.Duration{Duration: 48 * time.Hour}, PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
		}}
	}
	inside, over := made("passed"), made("encoded")
	for c, by := range map[*cmv1.Certificate]client.Client{inside: w.inside, over: outside} {
		if err := by.Create(ctx, c); err != nil {
			t.Fatal(err)
		}
		c.Status = cmv1.CertificateStatus{Revision: ptr.To(3), NotAfter: ptr.To(metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)))}
		if err := by.Status().Update(ctx, c); err != nil {
			t.Fatal(err)
		}
		stored := &cmv1.Certificate{}
		if err := outside.Get(ctx, client.ObjectKeyFromObject(c), stored); err != nil {
			t.Fatal(err)
		}
		read := &cmv1.Certificate{}
		if err := w.inside.Get(ctx, client.ObjectKeyFromObject(c), read); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(stored, c) || !cmp.Equal(stored, read) {
			t.Errorf("%s: the writer has: %s\nthe reader has: %s", c.Name, cmp.Diff(stored, c), cmp.Diff(stored, read))
		}
	}
	if difference := cmp.Diff(over.Spec, inside.Spec) + cmp.Diff(over.Status, inside.Status); difference != "" {
		t.Errorf("what is passed and what is encoded differ: %s", difference)
	}
	list := &cmv1.CertificateList{}
	if err := w.inside.List(ctx, list, client.InNamespace("default")); err != nil || len(list.Items) != 2 || !cmp.Equal(&list.Items[0], over) || list.ResourceVersion == "" {
		t.Errorf("listed %v, %v", list, err)
	}
	invalid := made("invalid")
	invalid.Spec.PrivateKey.Algorithm = "DSA"
	if err := w.inside.Create(ctx, invalid); !apierrors.IsInvalid(err) {
		t.Errorf("creating something invalid: %v", err)
	}
	stale := inside.DeepCopy()
	stale.ResourceVersion = "1"
	if err := w.inside.Status().Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("updating an old version: %v", err)
	}
	w.nothingLeft(t)
}

// Caches get what is passed, and share it.
func TestCachesOfCustomResources(t *testing.T) {
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	newCertificate := func(name string) *cmv1.Certificate {
		return &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: cmv1.CertificateSpec{
			SecretName: name, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "ca"},
		}}
	}
	var caches [2]cache.Cache
	for i := range caches {
		made, err := inprocess.NewCache(w.server.Inside, cache.Options{Scheme: w.scheme, Mapper: w.inside.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields()})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = made.Start(ctx) }()
		if _, err := made.GetInformer(ctx, &cmv1.Certificate{}); err != nil {
			t.Fatal(err)
		}
		caches[i] = made
	}
	create := func(crt *cmv1.Certificate) {
		t.Helper()
		if err := w.inside.Create(ctx, crt); err != nil {
			t.Fatal(err)
		}
	}
	// Once both have an object that is newer than their lists, both watch: what a watch
	// gets that begins later can be another copy.
	first := newCertificate("first")
	create(first)
	for _, c := range caches {
		apitest.Eventually(t, "the cache watches", func() bool { return c.Get(ctx, client.ObjectKeyFromObject(first), &cmv1.Certificate{}) == nil })
	}
	crt := newCertificate("cached")
	create(crt)
	var found [2]cmv1.Certificate
	for i, c := range caches {
		apitest.Eventually(t, "the cache has the Certificate", func() bool {
			return c.Get(ctx, client.ObjectKeyFromObject(crt), &found[i], client.UnsafeDisableDeepCopy) == nil
		})
		if found[i].UID != crt.UID || len(found[i].ManagedFields) != 0 || !cmp.Equal(found[i].Spec, crt.Spec) {
			t.Errorf("the cache has %v", found[i])
		}
	}
	if &found[0].Spec.DNSNames[0] != &found[1].Spec.DNSNames[0] {
		t.Error("the caches have different copies")
	}
	for _, made := range []*cmv1.Certificate{first, crt} {
		if err := w.inside.Delete(ctx, made); err != nil {
			t.Fatal(err)
		}
	}
	apitest.Eventually(t, "the caches forget it", func() bool {
		return apierrors.IsNotFound(caches[0].Get(ctx, client.ObjectKeyFromObject(crt), &cmv1.Certificate{}))
	})
	w.nothingLeft(t)
}

// Objects of the ACME server are read past the API as long as they are as stored, by
// those who may read them.
func TestRecentObjects(t *testing.T) {
	w, ctx := start(t), t.Context()
	outside := w.network(t)
	endpoint := &v1alpha1.AcmeEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "recent"}, Spec: v1alpha1.AcmeEndpointSpec{
		Accounts:    v1alpha1.AcmeAccounts{Admission: v1alpha1.AcmeAdmissionOpen, ServiceAccount: &v1alpha1.AcmeServiceAccount{Namespace: "default", Name: "web"}},
		Identifiers: v1alpha1.AcmeIdentifiers{DNS: &v1alpha1.AcmeDNSNames{Allow: []string{"recent.test"}}},
		Profiles:    []v1alpha1.AcmeProfile{{Name: "server", Signer: &v1alpha1.AcmeSigner{Name: "example.com/hosts"}}},
		Challenges:  v1alpha1.AcmeChallenges{Types: []string{"http-01"}, Attempts: v1alpha1.AcmeAttempts{Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: time.Second}}},
	}}
	if err := w.inside.Create(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	read := func(by client.Client) *v1alpha1.AcmeEndpoint {
		t.Helper()
		got := &v1alpha1.AcmeEndpoint{}
		if err := by.Get(ctx, client.ObjectKeyFromObject(endpoint), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	same := func(what string) {
		t.Helper()
		stored := read(outside).Labels["by"]
		for range 2 { // from the API, and then not
			if got := read(w.inside).Labels["by"]; got != stored {
				t.Errorf("%s: read %q, stored is %q", what, got, stored)
			}
		}
	}
	same("made")
	change := func(by client.Client, value string, options ...client.PatchOption) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"by":"`+value+`"}}}`))
		if err := by.Patch(ctx, endpoint.DeepCopy(), patch, options...); err != nil {
			t.Fatal(err)
		}
	}
	change(outside, "network")
	same("changed over the network")
	change(w.inside, "inside")
	same("changed inside")
	change(w.inside, "nobody", client.DryRunAll)
	same("changed in a dry run")
	updated := read(w.inside)
	updated.Labels["by"] = "dry-run"
	if err := w.inside.Update(ctx, updated, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	same("updated in a dry run")

	nobody := rest.CopyConfig(w.server.Inside)
	nobody.Impersonate.UserName = "somebody"
	limited, err := inprocess.NewClient(nobody, client.Options{Scheme: w.scheme, Mapper: w.inside.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := limited.Get(ctx, client.ObjectKeyFromObject(endpoint), &v1alpha1.AcmeEndpoint{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without the right reads: %v", err)
	}
	if err := outside.Delete(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.inside.Get(ctx, client.ObjectKeyFromObject(endpoint), &v1alpha1.AcmeEndpoint{}); !apierrors.IsNotFound(err) {
			t.Errorf("deleted, and read: %v", err)
		}
	}
}
