package issuer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	"github.com/certplane/certplane/internal/process/worker"
)

// kind is a kind of issuers, as the API serves it.
type kind struct {
	schema.GroupVersionKind
	empty      Issuer
	plural     string
	namespaced bool
	// blamed queues checks of the issuers for which Sign has reported a fault.
	blamed queued
}

func (k *kind) new() Issuer { return k.empty.DeepCopyObject().(Issuer) }

// domain is the part of signers' names that all issuers of the kind have in
// common.
func (k *kind) domain() string { return k.plural + "." + k.Group }

// who identifies an issuer.
type who struct {
	kind *kind
	types.NamespacedName
}

// String returns the name of an issuer in CertificateSigningRequests and in the
// permissions to approve them.
func (w who) String() string {
	if w.kind.namespaced {
		return w.kind.domain() + "/" + w.Namespace + "." + w.Name
	}
	return w.kind.domain() + "/" + w.Name
}

// kinds are all kinds of a controller.
type kinds []*kind

// referred returns the issuer to which a CertificateRequest refers. ok is false
// if it is of another controller's kind. A reference without a kind is to the
// kind Issuer, as everywhere in this API: approvers take it for that too.
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

// known returns the kinds as the scheme has them, without the values that only
// discovery provides.
func known(scheme *runtime.Scheme, empties []Issuer) (kinds, error) {
	var ks kinds
	for i, empty := range empties {
		if value := reflect.ValueOf(empty); !value.IsValid() || value.IsNil() {
			return nil, fmt.Errorf("field Kinds: entry %d is nil: name an empty object, such as &v1alpha1.SampleIssuer{}", i)
		}
		gvk, err := apiutil.GVKForObject(empty, scheme)
		if err != nil {
			return nil, fmt.Errorf("field Kinds: %T: %w", empty, err)
		}
		switch {
		case gvk.Group == certmanager.Group:
			return nil, fmt.Errorf("field Kinds: %T: the group %s contains built-in issuers: use another group", empty, gvk.Group)
		case len(ks) > 0 && ks[0].Group != gvk.Group:
			return nil, fmt.Errorf("field Kinds: %T is of the group %s, and others are of %s: make a controller for each", empty, gvk.Group, ks[0].Group)
		}
		if slices.ContainsFunc(ks, func(k *kind) bool { return k.Kind == gvk.Kind }) {
			return nil, fmt.Errorf("field Kinds: %T: the kind %s is listed twice", empty, gvk.Kind)
		}
		ks = append(ks, &kind{GroupVersionKind: gvk, empty: empty})
	}
	return ks, nil
}

// The reasons why a kind cannot be used until its CRD is changed.
var (
	errNotServed = errors.New("the API does not have it: install its definition")
	errNoStatus  = errors.New("it has no status, which says whether an issuer is ready: give its definition the status subresource " +
		"(+kubebuilder:subresource:status)")
)

// resolve gets the resource names of the kinds from the API.
func (ks kinds) resolve(ctx context.Context, lookup worker.Lookup) error {
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
	served := func(is func(metav1.APIResource) bool) int { return slices.IndexFunc(list.APIResources, is) }
	i := served(func(r metav1.APIResource) bool {
		return r.Kind == k.Kind && !strings.Contains(r.Name, "/") // subresources have the same kind
	})
	if i < 0 {
		return errNotServed
	}
	k.plural, k.namespaced = list.APIResources[i].Name, list.APIResources[i].Namespaced
	if served(func(r metav1.APIResource) bool { return r.Name == k.plural+"/status" }) < 0 {
		return errNoStatus
	}
	return nil
}
