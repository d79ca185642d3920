package explain

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/cli/shell"
)

// requestKinds are the kinds of requests, by the verbs that explain them. One is
// easily taken for another.
var requestKinds = []struct {
	verb     string
	resource schema.GroupVersionResource
	// namespaced reports whether the requests are in namespaces.
	namespaced bool
}{
	{"csr", certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), false},
	{"certificaterequest", requestsResource, true},
	{"certificate", certificatesResource, true},
}

// others are lines about objects of the same name that other verbs explain.
// What cannot be read is no help, and no failure.
func others(ctx context.Context, clients *Clients, cfg Config, verb string) []string {
	var lines []string
	for _, kind := range requestKinds {
		if kind.verb == verb || clients.Dynamic == nil {
			continue
		}
		namespace, words := "", []string{"explain", kind.verb}
		if kind.namespaced {
			namespace = cfg.Namespace
			words = append(words, "-n", namespace)
		}
		if _, err := clients.Dynamic.Resource(kind.resource).Namespace(namespace).Get(ctx, cfg.Name, metav1.GetOptions{}); err == nil {
			lines = append(lines, "There is one among the "+kind.resource.GroupResource().String()+":", "  "+shell.Line(cfg.certplane(append(words, cfg.Name)...)...))
		}
	}
	return lines
}
