package apiserver

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unsafe"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/store/etcd"
)

// TestCachedVersionsShareMemory tests that a watch cache has one copy of what two
// versions of an object, or two objects, have in common, and that each still says
// what it said.
func TestCachedVersionsShareMemory(t *testing.T) {
	store, read := openCachedRequests(t)
	create := func(name string) {
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: []byte("PEM of " + name), Username: "alice", SignerName: "example.com/a"},
		}
		if err := store.Create(t.Context(), "/csr/"+name, csr, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	approve := func(name string) {
		err := store.GuaranteedUpdate(t.Context(), "/csr/"+name, &certificatesv1.CertificateSigningRequest{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			csr := object.(*certificatesv1.CertificateSigningRequest)
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved})
			return csr, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	create("first")
	first := read("first")
	create("other")
	other := read("other") // the last object that changed is now another one
	approve("first")
	approved := read("first")
	if len(first.Status.Conditions) != 0 || len(approved.Status.Conditions) != 1 || string(other.Spec.Request) != "PEM of other" || other.Name != "other" {
		t.Errorf("requests changed in the cache: %v, %v, %v", first, other, approved)
	}
	if &first.Spec.Request[0] != &approved.Spec.Request[0] {
		t.Error("each version has its own copy of what is requested")
	}
	if unsafe.StringData(first.Spec.Username) != unsafe.StringData(other.Spec.Username) {
		t.Error("each request has its own copy of the requester")
	}
}

// openCachedRequests returns a store of CertificateSigningRequests in an etcd, and a
// function that reads a request, which must be there, as the watch cache has it.
func openCachedRequests(t *testing.T) (storage.Interface, func(name string) certificatesv1.CertificateSigningRequest) {
	server, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	codec := api.NewCodecs(false).LegacyCodec(certificatesv1.SchemeGroupVersion)
	config := storagebackend.NewDefaultConfig("/registry", codec).ForResource(certificatesv1.Resource("certificatesigningrequests"))
	direct := &directEtcd{connect: server.Connect}
	store, destroy, err := direct.openCached(config, "/csr",
		func(object runtime.Object) (string, error) {
			return "/csr/" + object.(metav1.Object).GetName(), nil
		},
		func() runtime.Object { return &certificatesv1.CertificateSigningRequest{} },
		func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		func(object runtime.Object) (labels.Set, fields.Set, error) {
			return nil, fields.Set{"metadata.name": object.(metav1.Object).GetName()}, nil
		}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	filled := func(context.Context) (bool, error) { return store.ReadinessCheck() == nil, nil }
	if err := wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true, filled); err != nil {
		t.Fatal(err)
	}
	return store, func(name string) certificatesv1.CertificateSigningRequest {
		t.Helper()
		// The newest revision of the store is at least as new as the last write, and the
		// cache waits for it.
		newest, err := store.GetCurrentResourceVersion(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var csr certificatesv1.CertificateSigningRequest
		if err := store.Get(t.Context(), "/csr/"+name, storage.GetOptions{ResourceVersion: fmt.Sprint(newest)}, &csr); err != nil {
			t.Fatal(err)
		}
		return csr
	}
}

func TestRecentAttributes(t *testing.T) {
	remembered := recentAttributes{of: func(object runtime.Object) (labels.Set, fields.Set, error) {
		csr := object.(*certificatesv1.CertificateSigningRequest)
		return csr.Labels, fields.Set{"metadata.name": csr.Name, "spec.signerName": csr.Spec.SignerName}, nil
	}}
	get := func(name, signer string) fields.Set {
		_, of, err := remembered.get(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}})
		if err != nil {
			t.Fatal(err)
		}
		if of["metadata.name"] != name || of["spec.signerName"] != signer {
			t.Errorf("the fields of %s, of %s, are %v", name, signer, of)
		}
		return of
	}
	first, again := get("a", "example.com/a"), get("a", "example.com/a")
	again["changed"] = "by the test"
	if first["changed"] == "" {
		t.Error("two versions have two copies of their fields")
	}
	if moved := get("a", "example.com/b"); moved["changed"] != "" {
		t.Error("a version with other fields has the old ones")
	}
}
