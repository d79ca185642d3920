package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// apis checks which certificate APIs the cluster serves, and whether it has the kinds of
// cert-manager.
func apis(ctx context.Context, c *checker) []Check {
	var checks []Check
	for _, kind := range []struct{ name, without string }{
		{"CertificateSigningRequest", ""},
		{"ClusterTrustBundle", "Without them the roots of signers are not published: switch on the API with --runtime-config of kube-apiserver, and the feature gate ClusterTrustBundle"},
		{"PodCertificateRequest", "Without them pods get no certificates in volumes. They require Kubernetes 1.35, --runtime-config of kube-apiserver, and the feature gate PodCertificateRequest"},
	} {
		resource, err := c.api.Resource(ctx, schema.GroupKind{Group: certificatesv1.GroupName, Kind: kind.name})
		switch {
		case err == nil:
			checks = append(checks, ok("%ss are served, in %s/%s", kind.name, certificatesv1.GroupName, resource.Version)...)
		case !errors.Is(err, certmanager.ErrNoResource):
			checks = append(checks, failure(fmt.Errorf("asking for %ss: %w", kind.name, err)))
		case kind.without == "":
			checks = append(checks, Check{Result: Failed, Text: fmt.Sprintf("the cluster has no %ss", kind.name)})
		default:
			checks = append(checks, Check{Result: Warning, Text: fmt.Sprintf("the cluster has no %ss", kind.name), Next: []string{kind.without}})
		}
	}
	return append(checks, certManagerKinds(ctx, c)...)
}

// certManagerKinds checks which program has installed the kinds of cert-manager.
func certManagerKinds(ctx context.Context, c *checker) []Check {
	found, err := definition(ctx, c, "certificates."+certmanager.Group)
	switch {
	case apierrors.IsNotFound(err):
		return ok("the kinds of cert-manager.io are not installed: the manifests contain them if one of their controllers is enabled")
	case err != nil:
		return unread("customresourcedefinitions.apiextensions.k8s.io", err)
	}
	by := "installed by an unknown program"
	for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app"} {
		if value := found.GetLabels()[label]; value != "" {
			by = fmt.Sprintf("%s: %s", label, value)
			break
		}
	}
	return ok("the kinds of cert-manager.io exist (%s): certplane works with them, and its manifests contain them only if one of their controllers is enabled", by)
}

// definition reads the metadata of the definition of a kind.
func definition(ctx context.Context, c *checker, name string) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return found, c.api.Get(ctx, client.ObjectKey{Name: name}, found)
}

// kinds checks whether the cluster has the kinds of the objects.
// CustomResourceDefinitions among the objects add their own kinds.
func (c *checker) kinds(ctx context.Context, objects []runtime.Object) []Check {
	var missing []string
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind()
		_, err := c.api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil { // some kinds are known without asking the server
			if _, err = c.api.Discovery.ServerResourcesForGroupVersionWithContext(ctx, kind.GroupVersion().String()); served.IsMissing(err) {
				err = &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
			}
		}
		if text := kind.Kind + " of " + kind.GroupVersion().String(); meta.IsNoMatchError(err) && !slices.Contains(missing, text) {
			missing = append(missing, text)
		} else if err != nil && !meta.IsNoMatchError(err) {
			return []Check{failure(fmt.Errorf("asking for the kind %s: %w", text, err))}
		}
	}
	if len(missing) == 0 {
		return ok("the cluster has all kinds of the manifests")
	}
	check := Check{Result: Failed, Text: "the server does not have " + strings.Join(missing, ", ")}
	if c.servesCertplane {
		check.Next = []string{"It is 'certplane serve', which runs the controllers itself: no installation is needed."}
	} else {
		check.Next = []string{"A cluster of Kubernetes 1.30 or later has them."}
	}
	return []Check{check}
}

// rightsToInstall checks whether the caller may create the objects to install.
func rightsToInstall(ctx context.Context, c *checker) []Check {
	objects, err := c.Manifests()
	if err != nil {
		return []Check{failure(err)}
	}
	checks := c.kinds(ctx, objects)
	var missing []string
	asked := map[authorizationv1.ResourceAttributes]bool{}
	for _, object := range objects {
		access, err := toCreate(object)
		if err != nil {
			return []Check{failure(err)}
		}
		if asked[access] {
			continue
		}
		asked[access] = true
		may, err := c.api.MayI(ctx, access)
		if err != nil {
			return []Check{failure(fmt.Errorf("asking what you may create: %w", err))}
		}
		if !may {
			missing = append(missing, describe(access))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return append(checks, Check{Result: Failed, Text: "you may not create " + strings.Join(missing, ", "), Next: []string{"Install as an administrator of the cluster."}})
	}
	checks = append(checks, ok("you may create all objects of certplane manifests")...)
	may, err := c.api.MayI(ctx, authorizationv1.ResourceAttributes{Verb: "escalate", Group: rbacv1.GroupName, Resource: "clusterroles"})
	if err == nil && !may {
		checks = append(checks, Check{Result: Warning, Text: "you may not grant rights that you do not hold (verb escalate on clusterroles)", Next: []string{"The API server then refuses the roles, unless you hold all of their rights: install as an administrator of the cluster."}})
	}
	return checks
}

// toCreate returns the right to create an object.
func toCreate(object runtime.Object) (authorizationv1.ResourceAttributes, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	about, err := meta.Accessor(object)
	if err != nil {
		return authorizationv1.ResourceAttributes{}, err
	}
	// All of these kinds have a regular plural.
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return authorizationv1.ResourceAttributes{Verb: "create", Group: kind.Group, Resource: resource.Resource, Namespace: about.GetNamespace()}, nil
}

func describe(access authorizationv1.ResourceAttributes) string {
	text := access.Resource
	if access.Group != "" {
		text += "." + access.Group
	}
	if access.Namespace != "" {
		text += " in the namespace " + access.Namespace
	}
	return text
}

// working is the maximum age of the last renewal of a running program's lease.
const working = time.Minute

// others finds other programs that approve and sign, by their renewed leases.
func others(ctx context.Context, c *checker) []Check {
	leases := &coordinationv1.LeaseList{}
	if err := c.api.List(ctx, leases); err != nil {
		return unread("leases in all namespaces, which would show other programs that approve and sign", err)
	}
	var found []Check
	for _, lease := range leases.Items {
		renewed := lease.Spec.RenewTime
		if renewed == nil || c.now.Sub(renewed.Time) > working {
			continue
		}
		program, next := programOf(lease.Name)
		if program == "" {
			continue
		}
		found = append(found, Check{
			Result: Warning, Next: []string{next},
			Text: fmt.Sprintf("%s runs (lease %s/%s, renewed %s)", program, lease.Namespace, lease.Name, print.Ago(c.now, renewed.Time)),
		})
	}
	return summed(found, "no lease shows another program that approves or signs")
}

// programOf returns the program that holds a lease, if it approves or signs, and the next
// step.
func programOf(lease string) (program, next string) {
	switch {
	case lease == "kube-controller-manager":
		return lease, "Its csrapproving, csrsigning and csrcleaner also answer requests: see docs/cluster.md to switch them off."
	case strings.HasPrefix(lease, "cert-manager-controller"):
		return "cert-manager", "Keep the controllers of cert-manager.io disabled, which is the default, stop cert-manager first, or let them wait for its Lease: see docs/cert-manager.md."
	case strings.HasPrefix(lease, "certplane-controllers"):
		return "certplane", "Installing it again updates it."
	}
	return "", ""
}

// namespaces checks for existing objects that the manifests need.
func namespaces(ctx context.Context, c *checker) []Check {
	objects, err := c.Manifests()
	if err != nil {
		return []Check{failure(err)}
	}
	var checks []Check
	for _, object := range objects {
		if wanted, is := object.(*corev1.Namespace); is {
			checks = append(checks, c.namespace(ctx, wanted)...)
		}
	}
	class := &schedulingv1.PriorityClass{}
	const critical = "system-cluster-critical"
	switch err := c.api.Get(ctx, client.ObjectKey{Name: critical}, class); {
	case err == nil:
		checks = append(checks, ok("the PriorityClass %s exists", critical)...)
	case apierrors.IsForbidden(err):
		checks = append(checks, Check{Result: NotChecked, Text: "you may not read the PriorityClass " + critical})
	case apierrors.IsNotFound(err):
		checks = append(checks, Check{Result: Warning, Text: "the PriorityClass " + critical + " does not exist", Next: []string{"The pods need it. Every Kubernetes cluster creates it when it starts."}})
	default:
		checks = append(checks, unread("priorityclasses.scheduling.k8s.io", err)...)
	}
	return checks
}

// namespace checks whether the restricted pods of the manifests can run in the namespace,
// and whether it contains the CA.
func (c *checker) namespace(ctx context.Context, wanted *corev1.Namespace) []Check {
	found := &corev1.Namespace{}
	err := c.api.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	switch {
	case apierrors.IsNotFound(err):
		return ok("the namespace %s does not exist yet; the manifests create it, with Pod Security %s", wanted.Name, wanted.Labels["pod-security.kubernetes.io/enforce"])
	case apierrors.IsForbidden(err):
		return []Check{{Result: NotChecked, Text: "you may not read the namespace " + wanted.Name}}
	case err != nil:
		return []Check{failure(fmt.Errorf("reading the namespace %s: %w", wanted.Name, err))}
	case found.DeletionTimestamp != nil:
		return []Check{{Result: Failed, Text: fmt.Sprintf("the namespace %s is being deleted", wanted.Name), Next: []string{"Wait until it is gone."}}}
	}
	checks := ok("the namespace %s exists; its pods comply with Pod Security restricted", wanted.Name)
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	const ca = "certplane-ca"
	switch err := c.api.Get(ctx, client.ObjectKey{Namespace: wanted.Name, Name: ca}, secret); {
	case err == nil:
		return append(checks, ok("the Secret %s exists", ca)...)
	case apierrors.IsNotFound(err):
		return append(checks, Check{
			Result: Warning, Text: fmt.Sprintf("the Secret %s does not exist, and the pods wait for it", ca),
			Next: []string{c.Line("kubectl", "--namespace", wanted.Name, "create", "secret", "tls", ca, "--cert", "ca.crt", "--key", "ca.key")},
		})
	default:
		return append(checks, Check{Result: NotChecked, Text: fmt.Sprintf("you may not read the Secret %s", ca)})
	}
}
