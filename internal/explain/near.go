package explain

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestKinds are the kinds of requests, by the verbs that explain them. One
// kind is easily mistaken for another.
var requestKinds = []struct {
	verb, resource string
	namespaced     bool
	object         func() client.Object
}{
	{"csr", "certificatesigningrequests.certificates.k8s.io", false, func() client.Object { return &csr{} }},
	{"certificaterequest", "certificaterequests.cert-manager.io", true, func() client.Object { return &cmv1.CertificateRequest{} }},
	{"certificate", "certificates.cert-manager.io", true, func() client.Object { return &cmv1.Certificate{} }},
}

// others returns steps for objects of the same name that other verbs explain.
// Objects that cannot be read are left out, without an error.
func others(ctx context.Context, api Reader, q Query, verb string) []Step {
	var steps []Step
	for _, kind := range requestKinds {
		if kind.verb == verb {
			continue
		}
		key, words := client.ObjectKey{Name: q.Name}, []string{"explain", kind.verb}
		if kind.namespaced {
			key.Namespace = q.Namespace
			words = append(words, "-n", q.Namespace)
		}
		if err := api.Get(ctx, key, kind.object()); err == nil {
			steps = append(steps, step("There is one among the "+kind.resource+":", q.Certplane(append(words, q.Name)...)))
		}
	}
	return steps
}
