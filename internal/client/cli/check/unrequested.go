package check

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/shim"
)

// unrequested finds Certificates of Ingresses, Gateways and ListenerSets that request none any
// more: they are renewed as long as they exist.
func unrequested(ctx context.Context, c *checker) []Check {
	list := &cmv1.CertificateList{}
	if err := c.api.List(ctx, list); err != nil {
		return nil // another check reports it
	}
	owned, kinds := map[types.UID][]*cmv1.Certificate{}, map[schema.GroupVersionKind]bool{}
	for i := range list.Items {
		owner := metav1.GetControllerOfNoCopy(&list.Items[i])
		if owner == nil {
			continue
		}
		switch kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind); kind.GroupKind() {
		case shim.IngressKind.GroupKind(), shim.GatewayKind.GroupKind(), shim.ListenerSetKind.GroupKind():
			owned[owner.UID], kinds[kind] = append(owned[owner.UID], &list.Items[i]), true
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	settings := c.shimSettings(ctx)
	var checks, bad []Check
	for kind := range kinds {
		owners := &unstructured.UnstructuredList{}
		owners.SetGroupVersionKind(kind)
		if err := c.api.List(ctx, owners); err != nil {
			checks = append(checks, unread("objects of the kind "+kind.Kind, err)...)
		}
		for i := range owners.Items {
			owner := &owners.Items[i]
			if len(owned[owner.GetUID()]) == 0 || settings.Triggers(c.requester(ctx, owner)) {
				continue
			}
			for _, crt := range owned[owner.GetUID()] {
				bad = append(bad, Check{
					Result: Warning, Text: fmt.Sprintf("Certificate %s is renewed, but %s %s has no annotation for an issuer", request.FullName(crt.Namespace, crt.Name), kind.Kind, owner.GetName()),
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

// requester returns an owner of Certificates with the annotations that count for it.
func (c *checker) requester(ctx context.Context, owner *unstructured.Unstructured) metav1.Object {
	set := &gatewayv1.ListenerSet{}
	switch {
	case owner.GetKind() == shim.IngressKind.Kind:
		return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: owner.GetAnnotations()}}
	case owner.GetKind() == shim.ListenerSetKind.Kind && runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, set) == nil:
		gateway := &metav1.PartialObjectMetadata{}
		gateway.SetGroupVersionKind(shim.GatewayKind)
		if err := c.api.Get(ctx, shim.ParentOf(set), gateway); err == nil { // without it, its own annotations count
			owner.SetAnnotations(shim.Inherit(set.Annotations, gateway.Annotations))
		}
	}
	return owner
}

// shimSettings returns the settings of the installed controllers; the defaults if they cannot be
// read.
func (c *checker) shimSettings(ctx context.Context) shim.Settings {
	var installed struct {
		CertManager struct {
			IngressShim shim.IngressSettings `json:"ingressShim"`
		} `json:"certManager"`
	}
	installed.CertManager.IngressShim = shim.DefaultIngressSettings()
	configs := &corev1.ConfigMapList{}
	if c.api.List(ctx, configs, client.InNamespace(c.Controllers), ofInstallation) == nil {
		for i := range configs.Items {
			_ = yaml.Unmarshal([]byte(configs.Items[i].Data["config.yaml"]), &installed) // its program reports errors
		}
	}
	return shim.Settings{IngressSettings: installed.CertManager.IngressShim, GatewaySettings: shim.DefaultGatewaySettings()}
}
