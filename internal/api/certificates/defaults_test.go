package certificates

import (
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/certplane/certplane/internal/pki"
)

const (
	legacy  = "kubernetes.io/legacy-unknown"
	client  = "kubernetes.io/kube-apiserver-client-kubelet"
	serving = "kubernetes.io/kubelet-serving"
)

type betaUsages = []certificatesv1beta1.KeyUsage

var (
	clientUsages  = betaUsages{"digital signature", "client auth"}
	servingUsages = betaUsages{"server auth", "digital signature"}
)

// The signer of a v1beta1 request without a signer name is inferred from its
// content.
func TestDefaultSignerName(t *testing.T) {
	node := pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}}
	server := node
	server.DNSNames = []string{"n1.example.com"}
	change := func(subject pki.Subject, edit func(*pki.Subject)) []byte {
		edit(&subject)
		return newRequest(t, subject)
	}
	withKeyEncipherment := func(usages betaUsages) betaUsages {
		return append(usages[:len(usages):len(usages)], "key encipherment")
	}
	uri := &url.URL{Scheme: "spiffe", Host: "n1"}
	address := net.IPv4(10, 0, 0, 1)

	for _, tc := range []struct {
		reason  string
		request []byte
		usages  betaUsages
		want    string
	}{
		{"a request that is none", []byte("garbage"), clientUsages, legacy},
		{"a person's request", newRequest(t, pki.Subject{CommonName: "alice"}), clientUsages, legacy},
		{"no usages are neither client's nor server's", newRequest(t, node), nil, legacy},

		{"a node's client request", newRequest(t, node), clientUsages, client},
		{"with key encipherment", newRequest(t, node), withKeyEncipherment(clientUsages), client},
		{"usages are a set", newRequest(t, node), betaUsages{"client auth", "digital signature", "client auth"}, client},
		{"a client of another organization", change(node, func(s *pki.Subject) { s.Organizations = []string{"others"} }), clientUsages, legacy},
		{"a client of two organizations", change(node, func(s *pki.Subject) { s.Organizations = []string{"system:nodes", "others"} }), clientUsages, legacy},
		{"a client of another name", change(node, func(s *pki.Subject) { s.CommonName = "system:nod" }), clientUsages, legacy},
		{"a client with a DNS name", newRequest(t, server), clientUsages, legacy},
		{"a client with an email address", change(node, func(s *pki.Subject) { s.EmailAddresses = []string{"n@example.com"} }), clientUsages, legacy},
		{"a client with a URI", change(node, func(s *pki.Subject) { s.URIs = []*url.URL{uri} }), clientUsages, legacy},
		{"a client with an IP address", change(node, func(s *pki.Subject) { s.IPAddresses = []net.IP{address} }), clientUsages, legacy},
		{"a client with one usage more", newRequest(t, node), append(withKeyEncipherment(clientUsages), "server auth"), legacy},
		{"a client with one usage less", newRequest(t, node), betaUsages{"client auth"}, legacy},

		{"a node's serving request", newRequest(t, server), servingUsages, serving},
		{"with its encipherment", newRequest(t, server), withKeyEncipherment(servingUsages), serving},
		{"an IP address is as good as a name", change(node, func(s *pki.Subject) { s.IPAddresses = []net.IP{address} }), servingUsages, serving},
		{"a server of another organization", change(server, func(s *pki.Subject) { s.Organizations = nil }), servingUsages, legacy},
		{"a server of another name", change(server, func(s *pki.Subject) { s.CommonName = "n1" }), servingUsages, legacy},
		{"a server with one usage more", newRequest(t, server), append(withKeyEncipherment(servingUsages), "client auth"), legacy},
		{"a server with one usage less", newRequest(t, server), betaUsages{"server auth"}, legacy},
		{"a server without an address", newRequest(t, node), servingUsages, legacy},
		{"a server with a URI", change(server, func(s *pki.Subject) { s.URIs = []*url.URL{uri} }), servingUsages, legacy},
		{"a server with an email address", change(server, func(s *pki.Subject) { s.EmailAddresses = []string{"n@example.com"} }), servingUsages, legacy},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := &certificatesv1beta1.CertificateSigningRequest{
				Spec: certificatesv1beta1.CertificateSigningRequestSpec{Request: tc.request, Usages: tc.usages},
			}
			newScheme(t).Default(obj)
			if obj.Spec.SignerName == nil || *obj.Spec.SignerName != tc.want {
				t.Errorf("signerName is %v, want %q", obj.Spec.SignerName, tc.want)
			}
		})
	}
}

// Only absent fields are defaulted; an empty field is the client's mistake.
func TestDefaults(t *testing.T) {
	name := func(name string) *string { return &name }
	for _, tc := range []struct {
		reason   string
		in, want certificatesv1beta1.CertificateSigningRequest
	}{
		{"absent usages are those of a signing key, which no kubelet profile matches",
			certificatesv1beta1.CertificateSigningRequest{},
			certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{
				Usages:     betaUsages{"digital signature", "key encipherment"},
				SignerName: name(legacy),
			}}},
		{"empty usages and an empty signer stay",
			certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: betaUsages{}, SignerName: name("")}},
			certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: betaUsages{}, SignerName: name("")}}},
		{"a signer that is set stays",
			certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: clientUsages, SignerName: name("example.com/own")}},
			certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: clientUsages, SignerName: name("example.com/own")}}},
		{"a condition without a status is true",
			certificatesv1beta1.CertificateSigningRequest{
				Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: clientUsages, SignerName: name(legacy)},
				Status: certificatesv1beta1.CertificateSigningRequestStatus{
					Conditions: []certificatesv1beta1.CertificateSigningRequestCondition{{Type: "A"}, {Type: "B", Status: "False"}}},
			},
			certificatesv1beta1.CertificateSigningRequest{
				Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: clientUsages, SignerName: name(legacy)},
				Status: certificatesv1beta1.CertificateSigningRequestStatus{
					Conditions: []certificatesv1beta1.CertificateSigningRequestCondition{{Type: "A", Status: "True"}, {Type: "B", Status: "False"}}},
			}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			list := &certificatesv1beta1.CertificateSigningRequestList{
				Items: []certificatesv1beta1.CertificateSigningRequest{*tc.in.DeepCopy()},
			}
			single := tc.in.DeepCopy()
			scheme := newScheme(t)
			scheme.Default(single)
			if diff := cmp.Diff(&tc.want, single); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			scheme.Default(list)
			if diff := cmp.Diff(tc.want, list.Items[0]); diff != "" {
				t.Errorf("list item (-want +got):\n%s", diff)
			}
		})
	}
}
