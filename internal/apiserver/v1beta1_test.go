package apiserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

func TestV1beta1(t *testing.T) {
	w := start(t)
	t.Run("defaults", w.testDefaults)
	t.Run("sent empty is not left out", w.testNotDefaulted)
	t.Run("nonsense", w.testNonsense)
	t.Run("condition status", w.testConditionStatus)
	t.Run("warning", w.testWarning)
	t.Run("discovery", w.testDiscovery)
	t.Run("leniency on create", w.testLenientCreate)
	t.Run("legacy signer", w.testLegacySigner)
	t.Run("leniency on update", w.testLenientUpdate)
	t.Run("status ignores decisions", w.testIgnoredDecisions)
	t.Run("same in all versions", w.testNoLeniency)
}

const (
	legacy        = certificatesv1beta1.LegacyUnknownSignerName
	kubeletClient = certificatesv1beta1.KubeAPIServerClientKubeletSignerName
	kubeletServer = certificatesv1beta1.KubeletServingSignerName
)

func nodeSubject(change func(*pki.Subject)) pki.Subject {
	s := pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}
	if change != nil {
		change(&s)
	}
	return s
}

// testDefaults: v1beta1 recognizes kubelets by the content of their requests.
func (w world) testDefaults(t *testing.T) {
	type usages = []certificatesv1beta1.KeyUsage
	const signature, encipherment, client, server = "digital signature", "key encipherment", "client auth", "server auth"
	clientUsages, serverUsages := usages{signature, encipherment, client}, usages{server, signature, encipherment}
	dns := func(s *pki.Subject) { s.DNSNames = []string{"n1"} }
	ip := func(s *pki.Subject) { s.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }
	tests := []struct {
		reason  string
		subject pki.Subject
		usages  usages
		want    string
	}{
		{"nothing is said", pki.Subject{CommonName: "x"}, nil, legacy},
		{"usages that are left out are nobody's", nodeSubject(nil), nil, legacy},

		{"client", nodeSubject(nil), clientUsages, kubeletClient},
		{"client without encipherment", nodeSubject(nil), usages{client, signature}, kubeletClient},
		{"client with usages twice", nodeSubject(nil), usages{client, signature, client}, kubeletClient},
		{"client with a bare prefix", nodeSubject(func(s *pki.Subject) { s.CommonName = "system:node:" }), clientUsages, kubeletClient},
		{"client of another group", nodeSubject(func(s *pki.Subject) { s.Organizations[0] = "nodes" }), clientUsages, legacy},
		{"client of two groups", nodeSubject(func(s *pki.Subject) { s.Organizations = append(s.Organizations, "a") }), clientUsages, legacy},
		{"client of another name", nodeSubject(func(s *pki.Subject) { s.CommonName = "n1" }), clientUsages, legacy},
		{"client with a DNS name", nodeSubject(dns), clientUsages, legacy},
		{"client with an IP address", nodeSubject(ip), clientUsages, legacy},
		{"client with an e-mail address", nodeSubject(func(s *pki.Subject) { s.EmailAddresses = []string{"a@b.c"} }), clientUsages, legacy},
		{"client with a URI", nodeSubject(func(s *pki.Subject) { s.URIs = []*url.URL{{Scheme: "a", Host: "b"}} }), clientUsages, legacy},
		{"client with a usage more", nodeSubject(nil), append(clientUsages[:3:3], server), legacy},
		{"client with a usage less", nodeSubject(nil), usages{signature, encipherment}, legacy},

		{"server with a DNS name", nodeSubject(dns), serverUsages, kubeletServer},
		{"server with an IP address", nodeSubject(ip), serverUsages, kubeletServer},
		{"server without encipherment", nodeSubject(dns), usages{signature, server}, kubeletServer},
		{"server without names", nodeSubject(nil), serverUsages, legacy},
		{"server of another name", nodeSubject(func(s *pki.Subject) { dns(s); s.CommonName = "n1" }), serverUsages, legacy},
		{"server with a URI", nodeSubject(func(s *pki.Subject) { dns(s); s.URIs = []*url.URL{{Scheme: "a", Host: "b"}} }), serverUsages, legacy},
		{"server with an e-mail address", nodeSubject(func(s *pki.Subject) { dns(s); s.EmailAddresses = []string{"a@b.c"} }), serverUsages, legacy},
		{"server with a usage less", nodeSubject(dns), usages{server}, legacy},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w.wantDefaults(t, fmt.Sprintf("default-%d", i), tc.subject, tc.usages, tc.want)
		})
	}
}

// wantDefaults creates a request without a signer and reads it in both
// versions.
func (w world) wantDefaults(t *testing.T, name string, subject pki.Subject, sent []certificatesv1beta1.KeyUsage, signer string) {
	t.Helper()
	request := &certificatesv1beta1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1beta1.CertificateSigningRequestSpec{
			Request: apitest.NewCSR(t, name, "", subject, apitest.NewKey(t)).Spec.Request,
			Usages:  sent,
		},
	}
	created, err := w.admin.CertificatesV1beta1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
	if signer == legacy {
		wantInvalid(t, err, name, `spec.signerName: Invalid value: "`+legacy+`"`)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := sent
	if want == nil {
		want = []certificatesv1beta1.KeyUsage{"digital signature", "key encipherment"}
	}
	if created.Spec.SignerName == nil || *created.Spec.SignerName != signer || !cmp.Equal(want, created.Spec.Usages) {
		t.Errorf("in v1beta1: %+v, want signer %s and usages %v", created.Spec, signer, want)
	}
	if got := w.get(t, name); got.Spec.SignerName != signer || len(got.Spec.Usages) != len(want) {
		t.Errorf("in v1: signer %s and usages %v, want %s and %v", got.Spec.SignerName, got.Spec.Usages, signer, want)
	}
}

// create sends JSON that typed clients do not send, as v1beta1.
func (w world) create(t *testing.T, name string, spec map[string]any) error {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1beta1", "kind": "CertificateSigningRequest",
		"metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.send(t, w.Admin(t), call{path: path(v1beta1), header: map[string]string{"Content-Type": "application/json"}, body: body}).err()
}

func (w world) testNotDefaulted(t *testing.T) {
	request := newCSR(t, "x").Spec.Request
	const invalid = `CertificateSigningRequest.certificates.k8s.io "empty" is invalid: `
	for want, spec := range map[string]map[string]any{
		invalid + "spec.signerName: Required value": {"request": request, "signerName": ""},
		invalid + "spec.usages: Required value":     {"request": request, "usages": []string{}, "signerName": "example.com/x"},
	} {
		if err := w.create(t, "empty", spec); !apierrors.IsInvalid(err) || err.Error() != want {
			t.Errorf("%v:\n got %v\nwant %s", spec, err, want)
		}
	}
}

// testNonsense: the error about the request comes first, then the one about the
// signer that would have been inferred from a valid request.
func (w world) testNonsense(t *testing.T) {
	err := w.create(t, "nonsense", map[string]any{"request": []byte("nonsense")})
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got %v, want 422", err)
	}
	if causes := status.Status().Details.Causes; len(causes) != 2 || causes[0].Field != "spec.request" || causes[1].Field != "spec.signerName" {
		t.Errorf("causes are %v", causes)
	}
}

func (w world) testConditionStatus(t *testing.T) {
	stored := apitest.Create(t, w.admin, newCSR(t, "condition-status"))
	decided := apitest.With(stored, "Approved")
	decided.Status.Conditions[0].Status = ""
	if _, err := w.write(t, "PUT", v1, decided, "approval"); !apierrors.IsInvalid(err) {
		t.Errorf("in v1: %v, want 422", err)
	}
	got, err := w.write(t, "PUT", v1beta1, decided, "approval")
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Conditions[0].Status != "True" {
		t.Errorf("in v1beta1: %+v, want status True", got.Status.Conditions)
	}
}

// testWarning: kubectl shows the header's text to its users.
func (w world) testWarning(t *testing.T) {
	apitest.Create(t, w.admin, newCSR(t, "warned"))
	const text = `299 - "certificates.k8s.io/v1beta1 CertificateSigningRequest is deprecated in v1.19+, unavailable in v1.22+; use certificates.k8s.io/v1 CertificateSigningRequest"`
	for where, want := range map[string][]string{
		path(v1beta1, "warned"):             {text},
		path(v1beta1, "warned", "status"):   {text},
		path(v1beta1, "warned", "approval"): {text},
		path(v1, "warned"):                  nil,
	} {
		got := w.send(t, w.Admin(t), call{path: where})
		if diff := cmp.Diff(want, got.header.Values("Warning")); diff != "" || got.code != 200 {
			t.Errorf("%s: %d, warnings (-want +got):\n%s", where, got.code, diff)
		}
	}
}

// testDiscovery: the old version is served, but not preferred.
func (w world) testDiscovery(t *testing.T) {
	groups, err := w.admin.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Groups {
		if group.Name != "certificates.k8s.io" {
			continue
		}
		var versions []string
		for _, version := range group.Versions {
			versions = append(versions, version.Version)
		}
		if diff := cmp.Diff([]string{v1, v1beta1, "v1alpha1"}, versions); diff != "" || group.PreferredVersion.Version != v1 {
			t.Errorf("versions, of which %s is preferred (-want +got):\n%s", group.PreferredVersion.Version, diff)
		}
	}
	list, err := w.admin.Discovery().ServerResourcesForGroupVersion("certificates.k8s.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, resource := range list.APIResources {
		if strings.HasPrefix(resource.Name, requests) {
			names = append(names, resource.Name)
		}
	}
	if diff := cmp.Diff([]string{requests, requests + "/approval", requests + "/status"}, names); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
