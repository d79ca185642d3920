package profile

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// variables returns the variables of expressions for f. A pod's spec is
// included only if podSpec is set, because its conversion takes time.
func variables(f request.Request, podSpec bool) (map[string]any, error) {
	all := map[string]any{"request": requestVariable(f), "requester": requesterVariable(f)}
	if f.Kind != v1alpha1.PodCertificateRequests {
		return all, nil
	}
	pod := map[string]any{"metadata": metadata(&f.Pod.ObjectMeta)}
	if podSpec {
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&f.Pod.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading the pod: %w", err)
		}
		pod["spec"] = spec
	}
	all["pod"] = pod
	all["serviceAccount"] = map[string]any{"metadata": metadata(f.ServiceAccount)}
	all["node"] = map[string]any{"metadata": metadata(f.Node)}
	all["namespaceObject"] = map[string]any{"metadata": metadata(f.NamespaceObject)}
	all["services"] = servicesVariable(f)
	return all, nil
}

// requestVariable omits expirationSeconds if it is not requested.
func requestVariable(f request.Request) map[string]any {
	asked := &x509.CertificateRequest{}
	if f.PKCS10 != nil {
		asked = f.PKCS10.CertificateRequest
	}
	all := map[string]any{
		"kind": string(f.Kind), "name": f.Name, "namespace": f.Namespace, "uid": f.UID,
		"subject": map[string]any{
			"commonName":          asked.Subject.CommonName,
			"organizations":       list(asked.Subject.Organization),
			"organizationalUnits": list(asked.Subject.OrganizationalUnit),
			"text":                asked.Subject.String(),
		},
		"dnsNames":       list(asked.DNSNames),
		"ipAddresses":    ipTexts(asked.IPAddresses),
		"uris":           uriTexts(asked.URIs),
		"emailAddresses": list(asked.EmailAddresses),
		"usages":         list(f.Usages),
		"keyType":        pki.KubernetesKeyType(f.Key),
		"annotations":    mapOf(f.Annotations),
	}
	if f.Duration != nil {
		all["expirationSeconds"] = int64(f.Duration.Seconds())
	}
	return all
}

func requesterVariable(f request.Request) map[string]any {
	who := f.Requester
	if f.Kind == v1alpha1.PodCertificateRequests && who.Username == "" && f.ServiceAccount != nil {
		who = request.ServiceAccount(f.Namespace, f.ServiceAccount.Name)
		who.UID = string(f.ServiceAccount.UID)
	}
	extra := make(map[string][]string, len(who.Extra))
	for key, values := range who.Extra {
		extra[key] = list(values)
	}
	return map[string]any{"username": who.Username, "uid": who.UID, "groups": list(who.Groups), "extra": extra}
}

func servicesVariable(f request.Request) []map[string]string {
	services := make([]map[string]string, len(f.Services))
	for i, s := range f.Services {
		services[i] = map[string]string{"name": s.Name, "namespace": s.Namespace}
	}
	return services
}

func metadata(m *metav1.ObjectMeta) map[string]any {
	return map[string]any{
		"name": m.Name, "namespace": m.Namespace, "uid": string(m.UID), "labels": mapOf(m.Labels), "annotations": mapOf(m.Annotations),
	}
}

// list and mapOf convert nil to empty values, so that expressions need not
// check for existence.
func list(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}

func mapOf(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func ipTexts(ips []net.IP) []string {
	texts := make([]string, len(ips))
	for i, ip := range ips {
		texts[i] = ip.String()
	}
	return texts
}

func uriTexts(uris []*url.URL) []string {
	texts := make([]string, len(uris))
	for i, uri := range uris {
		texts[i] = uri.String()
	}
	return texts
}
