package certmanager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNoResource means that no resource of a kind is served.
var ErrNoResource = errors.New("no resource is served of the kind")

// MessageNoSigner begins the refusal to approve a request to an issuer of a
// kind that is not served. Other programs depend on the text.
const MessageNoSigner = "referenced signer resource does not exist"

// Resource is the resource that serves the objects of a kind.
type Resource struct {
	Version    string
	Name       string // in the plural
	Namespaced bool
}

// Discovery returns which kinds are served.
type Discovery interface {
	ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error)
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// IssuerGroupKind returns the kind of the object to which ref refers.
func IssuerGroupKind(ref cmmeta.IssuerReference) schema.GroupKind {
	return schema.GroupKind{Group: IssuerGroup(ref), Kind: IssuerKind(ref)}
}

// ApprovalNames returns the names of signers.cert-manager.io under which the
// right to approve requests of a namespace to an issuer is granted: that of all
// issuers of its kind, and its own. of is the resource of the kind.
func ApprovalNames(ref cmmeta.IssuerReference, of Resource, namespace string) []string {
	all := of.Name + "." + IssuerGroup(ref) + "/"
	if of.Namespaced {
		return []string{all + "*", all + namespace + "." + ref.Name}
	}
	return []string{all + "*", all + ref.Name}
}

// FindResource looks up the resource of a kind. It returns ErrNoResource if it
// does not exist; served then reports whether any kind of its group is served.
func FindResource(ctx context.Context, discovery Discovery, kind schema.GroupKind) (found Resource, served bool, err error) {
	groups, err := discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return Resource{}, false, fmt.Errorf("looking for API group %s: %w", kind.Group, err)
	}
	for _, group := range groups.Groups {
		if group.Name != kind.Group {
			continue
		}
		for _, version := range group.Versions {
			found, err := findInVersion(ctx, discovery, version.GroupVersion, kind.Kind)
			if err == nil || !errors.Is(err, ErrNoResource) {
				return found, true, err
			}
		}
		return Resource{}, true, ErrNoResource
	}
	return Resource{}, false, ErrNoResource
}

func findInVersion(ctx context.Context, discovery Discovery, version, kind string) (Resource, error) {
	list, err := discovery.ServerResourcesForGroupVersionWithContext(ctx, version)
	if apierrors.IsNotFound(err) {
		return Resource{}, ErrNoResource // it has just been removed
	}
	if err != nil {
		return Resource{}, fmt.Errorf("looking for kind %s in %s: %w", kind, version, err)
	}
	for _, known := range list.APIResources {
		isSubresource := strings.Contains(known.Name, "/")
		if known.Kind == kind && !isSubresource {
			return Resource{Version: version[strings.LastIndex(version, "/")+1:], Name: known.Name, Namespaced: known.Namespaced}, nil
		}
	}
	return Resource{}, ErrNoResource
}
