package csr_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

func TestServerList(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.create(t, "a", signer("example.com/one"), labels("team", "x"))
	w.create(t, "b", signer("example.com/two"), labels("team", "x"))
	w.create(t, "c", signer("example.com/two"))
	t.Run("selectors", w.testSelectors)
	t.Run("unknown fields", w.testUnknownFields)
	t.Run("pages", w.testPages)
	t.Run("versions", w.testListVersions)
	t.Run("rights", w.testListRights)
	t.Run("foreign requests", w.testForeignRequests)
}

func names(list *certificatesv1.CertificateSigningRequestList) string {
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return strings.Join(names, " ")
}

func (w world) testSelectors(t *testing.T) {
	for _, tc := range []struct{ label, field, want string }{
		{"", "", "a b c"},
		{"", "spec.signerName=example.com/one", "a"},
		{"", "spec.signerName==example.com/two", "b c"},
		{"", "spec.signerName!=example.com/one", "b c"},
		{"", "spec.signerName=example.com/none", ""},
		{"", "metadata.name=b", "b"},
		{"", "metadata.name!=b", "a c"},
		{"", "metadata.name!=b,spec.signerName=example.com/two", "c"},
		{"", "metadata.name=a,spec.signerName=example.com/two", ""},
		{"team", "", "a b"},
		{"!team", "", "c"},
		{"team=x", "spec.signerName=example.com/two", "b"},
	} {
		options := metav1.ListOptions{LabelSelector: tc.label, FieldSelector: tc.field}
		v1, err := w.csrs().List(bounded(t), options)
		if err != nil {
			t.Fatal(err)
		}
		beta, err := w.admin.CertificatesV1beta1().CertificateSigningRequests().List(bounded(t), options)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(v1); got != tc.want || len(beta.Items) != len(v1.Items) {
			t.Errorf("%q %q: got %q, want %q; %d in v1beta1", tc.label, tc.field, got, tc.want, len(beta.Items))
		}
	}
}

func (w world) testUnknownFields(t *testing.T) {
	for _, field := range []string{"spec.username", "metadata.namespace", "status.certificate", "status.conditions", "spec.SignerName"} {
		for _, path := range []string{v1Path, v1beta1} {
			got := w.call(t, call{path: path + "?fieldSelector=" + field + "%3Dx"})
			if got.code != http.StatusBadRequest || !strings.Contains(string(got.body), "field label not supported: "+field) {
				t.Errorf("%s: %d %s", field, got.code, got.body)
			}
		}
	}
}

func (w world) testPages(t *testing.T) {
	first, err := w.csrs().List(bounded(t), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if names(first) != "a b" || first.Continue == "" || first.RemainingItemCount == nil || *first.RemainingItemCount != 1 {
		t.Errorf("first page is %q, %v", names(first), first.ListMeta)
	}
	second, err := w.csrs().List(bounded(t), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil {
		t.Fatal(err)
	}
	if names(second) != "c" || second.Continue != "" || second.ResourceVersion != first.ResourceVersion {
		t.Errorf("second page is %q, %v", names(second), second.ListMeta)
	}
}

func (w world) testListVersions(t *testing.T) {
	for _, version := range []string{"", "0", w.version(t)} {
		list, err := w.csrs().List(bounded(t), metav1.ListOptions{ResourceVersion: version, FieldSelector: "spec.signerName=example.com/two"})
		if err != nil || names(list) != "b c" {
			t.Errorf("list at %q: %v, %v", version, list, err)
		}
		got, err := w.csrs().Get(bounded(t), "a", metav1.GetOptions{ResourceVersion: version})
		if err != nil || got.Name != "a" {
			t.Errorf("get at %q: %v", version, err)
		}
	}
	_, err := w.csrs().List(bounded(t), metav1.ListOptions{ResourceVersion: "junk"})
	if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		t.Errorf("list at junk: %v", err)
	}
}

// A list that selects one name needs rights only for that name.
func (w world) testListRights(t *testing.T) {
	w.Grant(t, "reader", apitest.Allow("get list watch", "certificatesigningrequests", "a"))
	reader := w.as(t, "reader").CertificatesV1().CertificateSigningRequests()
	list, err := reader.List(bounded(t), metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil || names(list) != "a" {
		t.Errorf("got %v, %v", list, err)
	}
	for _, field := range []string{"", "metadata.name=b", "metadata.name!=b", "spec.signerName=example.com/one"} {
		if _, err := reader.List(bounded(t), metav1.ListOptions{FieldSelector: field}); !apierrors.IsForbidden(err) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// A requester cannot read a request just because it is their own.
func (w world) testForeignRequests(t *testing.T) {
	w.Grant(t, "requester", apitest.Allow("create", "certificatesigningrequests"))
	requester := w.as(t, "requester").CertificatesV1().CertificateSigningRequests()
	own, err := requester.Create(bounded(t), newCSR(t, "own"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := requester.Get(bounded(t), own.Name, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	w.Grant(t, "auditor", apitest.Allow("list", "certificatesigningrequests"))
	list, err := w.as(t, "auditor").CertificatesV1().CertificateSigningRequests().List(bounded(t), metav1.ListOptions{})
	if err != nil || names(list) != "a b c own" {
		t.Errorf("an auditor sees %v, %v", list, err)
	}
	if diff := cmp.Diff(own.Spec, list.Items[3].Spec); diff != "" {
		t.Errorf("the request of somebody else (-want +got):\n%s", diff)
	}
}
