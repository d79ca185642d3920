package check

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/policy/request"
)

// unrequested finds Certificates of Ingresses and Gateways that request none any more: they
// are renewed as long as they exist.
func unrequested(ctx context.Context, c *checker) []Check {
	list := &cmv1.CertificateList{}
	if err := c.api.List(ctx, list); err != nil {
		return nil // another check reports it
	}
	owned, kinds := map[types.UID][]*cmv1.Certificate{}, map[schema.GroupVersionKind]bool{}
	for i := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil && (owner.Kind == "Ingress" || owner.Kind == "Gateway") {
			owned[owner.UID] = append(owned[owner.UID], &list.Items[i])
			kinds[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)] = true
		}
	}
	var checks, bad []Check
	for kind := range kinds {
		owners := &metav1.PartialObjectMetadataList{}
		owners.SetGroupVersionKind(kind)
		if err := c.api.List(ctx, owners); err != nil {
			checks = append(checks, unread("objects of the kind "+kind.Kind, err)...)
		}
		for _, owner := range owners.Items {
			_, byIssuer := owner.Annotations[cmv1.IngressIssuerNameAnnotationKey]
			_, byClusterIssuer := owner.Annotations[cmv1.IngressClusterIssuerNameAnnotationKey]
			if byIssuer || byClusterIssuer || owner.Annotations["kubernetes.io/tls-acme"] == "true" {
				continue
			}
			for _, crt := range owned[owner.UID] {
				bad = append(bad, Check{
					Result: Warning, Text: fmt.Sprintf("Certificate %s is renewed, but %s %s has no annotation for an issuer", request.FullName(crt.Namespace, crt.Name), kind.Kind, owner.Name),
					Next: []string{c.Line("kubectl", "delete", "certificate", crt.Name, "-n", crt.Namespace)},
				})
			}
		}
	}
	if len(bad) > 0 {
		checks = append(checks, summed(bad, "")...)
	}
	return checks
}
