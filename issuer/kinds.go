package issuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/served"
)

// kind is a kind of issuers, as the API has it.
type kind struct {
	schema.GroupVersionKind
	empty      Issuer
	plural     string
	namespaced bool
	// blamed has issuers looked at with which Sign has found fault.
	blamed queued
}

func (k *kind) new() Issuer { return k.empty.DeepCopyObject().(Issuer) }

// domain is the part of signers' names that all issuers of the kind have in
// common.
func (k *kind) domain() string { return k.plural + "." + k.Group }

// who names an issuer.
type who struct {
	kind *kind
	types.NamespacedName
}

// String is the name by which CertificateSigningRequests and the rights to
// approve them know an issuer.
func (w who) String() string {
	if w.kind.namespaced {
		return w.kind.domain() + "/" + w.Namespace + "." + w.Name
	}
	return w.kind.domain() + "/" + w.Name
}

// kinds are all of a controller.
type kinds []*kind

// referred returns the issuer to which a CertificateRequest refers. ok is false
// if it is of no kind of ours. A reference without a kind is to the kind
// Issuer, as everywhere in this API: approvers take it for that too.
func (ks kinds) referred(ref cmmeta.IssuerReference, namespace string) (issuer who, ok bool) {
	i := slices.IndexFunc(ks, func(k *kind) bool {
		return k.Group == ref.Group && k.Kind == certmanager.IssuerKind(ref)
	})
	if i < 0 {
		return who{}, false
	}
	issuer = who{ks[i], types.NamespacedName{Name: ref.Name}}
	if ks[i].namespaced {
		issuer.Namespace = namespace
	}
	return issuer, true
}

// named returns the issuer that is the signer of a CertificateSigningRequest:
//
//	<plural>.<group>/<namespace>.<name>
//	<plural>.<group>/<name>
//
// Names may have dots, namespaces have none.
func (ks kinds) named(signerName string) (issuer who, ok bool) {
	domain, path, _ := strings.Cut(signerName, "/")
	i := slices.IndexFunc(ks, func(k *kind) bool { return k.domain() == domain })
	if i < 0 || path == "" || strings.Contains(path, "/") {
		return who{}, false
	}
	if !ks[i].namespaced {
		return who{ks[i], types.NamespacedName{Name: path}}, true
	}
	namespace, name, _ := strings.Cut(path, ".")
	return who{ks[i], types.NamespacedName{Namespace: namespace, Name: name}}, namespace != "" && name != ""
}

// known returns the kinds as the scheme has them, without what only the API
// can tell.
func known(scheme *runtime.Scheme, empties []Issuer) (kinds, error) {
	var ks kinds
	for _, empty := range empties {
		gvk, err := apiutil.GVKForObject(empty, scheme)
		if err != nil {
			return nil, fmt.Errorf("field Kinds: %T: %w", empty, err)
		}
		switch {
		case gvk.Group == certmanager.Group:
			return nil, fmt.Errorf("field Kinds: %T: the group %s has issuers of its own: use another", empty, gvk.Group)
		case len(ks) > 0 && ks[0].Group != gvk.Group:
			return nil, fmt.Errorf("field Kinds: %T is of the group %s, and others are of %s: make a controller for each", empty, gvk.Group, ks[0].Group)
		}
		ks = append(ks, &kind{GroupVersionKind: gvk, empty: empty})
	}
	return ks, nil
}

// errNotServed says that a kind has no definition yet.
var errNotServed = errors.New("the API does not have it")

// resolve asks the API what the kinds are called there.
func (ks kinds) resolve(ctx context.Context, lookup served.Lookup) error {
	for _, k := range ks {
		list, err := lookup(ctx, k.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			err = errNotServed
		}
		if err == nil {
			err = k.find(list)
		}
		if err != nil {
			return fmt.Errorf("looking for the kind %s of %s: %w", k.Kind, k.GroupVersion(), err)
		}
	}
	return nil
}

func (k *kind) find(list *metav1.APIResourceList) error {
	for _, resource := range list.APIResources {
		if resource.Kind == k.Kind && !strings.Contains(resource.Name, "/") { // subresources have the same kind
			k.plural, k.namespaced = resource.Name, resource.Namespaced
			return nil
		}
	}
	return errNotServed
}
