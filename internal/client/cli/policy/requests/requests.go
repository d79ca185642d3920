// Package requests reads requests from files: objects of the API, Certificates, and
// PKCS#10 requests in PEM.
package requests

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// Asked is a request to decide.
type Asked struct {
	Request request.Request
	// Pod is the spec of a pod's request, nil for others.
	Pod *certificatesv1beta1.PodCertificateRequestSpec
	// Origin and Owner are set for a request for a Certificate, or if the input names its
	// origin. Order is the order of an ACME client.
	Origin certpolicy.Fact[v1alpha1.RequestOrigin]
	Owner  certpolicy.Fact[metav1.ObjectMeta]
	Order  *v1alpha1.ProvenOrder
	// Object is the request as the API would store it.
	Object client.Object
}

// SetOrigin sets the origin of the request in the facts for a decision, if known.
func (a *Asked) SetOrigin(facts *certpolicy.Facts) {
	if a.Origin.Known {
		facts.SetOrigin(certpolicy.Facts{Origin: a.Origin, Owner: a.Owner, Order: a.Order})
	}
}

// Name returns the name of a request as text.
func (a *Asked) Name() string {
	name := cmp.Or(a.Object.GetName(), a.Object.GetGenerateName()+"*")
	if a.Object.GetNamespace() != "" {
		name = a.Object.GetNamespace() + "/" + name
	}
	return string(a.Request.Kind) + " " + name
}

// Options add or replace details of requests in files. Zero values change nothing.
type Options struct {
	// Kind is the kind of the request for a PKCS#10 request. The zero value
	// chooses by Signer and Namespace.
	Kind v1alpha1.RequestKind
	// Signer is the name of a signer or issuer in the form of policies.
	Signer string
	// Namespace is the namespace of all objects, DefaultNamespace the namespace of
	// objects that name none.
	Namespace, DefaultNamespace string
	// As is the requester; nil keeps the object's.
	As *request.Requester
	// Whoami returns the requester of objects that name none, if As is nil. It
	// may be nil.
	Whoami func() (request.Requester, error)
	// Controller is the user that creates requests for Certificates, if As is nil.
	Controller request.Requester

	Usages   []string
	Duration *time.Duration
	CA       bool
}

// ErrNoRequester reports an unknown requester.
var ErrNoRequester = errors.New("spec.username is missing: the requester is unknown")

// OfObject returns the request in an object.
func (o *Options) OfObject(object client.Object) (*Asked, error) {
	switch object := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return o.ofCSR(object)
	case *cmv1.CertificateRequest:
		return o.ofCertificateRequest(object)
	case *certificatesv1beta1.PodCertificateRequest:
		return o.ofPodRequest(object)
	case *cmv1.Certificate:
		return o.ofCertificate(object)
	}
	return nil, fmt.Errorf("%T is not a request", object)
}

func (o *Options) ofCSR(csr *certificatesv1.CertificateSigningRequest) (*Asked, error) {
	spec := &csr.Spec
	spec.SignerName = cmp.Or(o.Signer, spec.SignerName)
	if len(o.Usages) > 0 {
		spec.Usages = usagesAs[certificatesv1.KeyUsage](o.Usages)
	}
	if o.Duration != nil {
		spec.ExpirationSeconds = new(int32(o.Duration.Seconds()))
	}
	if o.CA {
		metav1.SetMetaDataAnnotation(&csr.ObjectMeta, request.AnnotationIsCA, "true")
	}
	switch {
	case spec.SignerName == "":
		return nil, errors.New("spec.signerName is missing: name the signer with --signer, such as kubernetes.io/kube-apiserver-client or clusterissuers.cert-manager.io/NAME")
	case len(spec.Usages) == 0:
		return nil, errors.New("spec.usages is missing: a CertificateSigningRequest needs usages: name them with --usages, such as 'digital signature,server auth'")
	}
	who, err := o.requester(requester(spec.Username, spec.UID, spec.Groups, spec.Extra))
	if err != nil {
		return nil, err
	}
	spec.Username, spec.UID, spec.Groups, spec.Extra = who.Username, who.UID, who.Groups, extraAs[certificatesv1.ExtraValue](who.Extra)
	return &Asked{Request: request.FromCSR(csr), Object: csr}, nil
}

// set sets the fields of an object of cert-manager.io that the options name.
func (o *Options) set(object client.Object, ref *cmmeta.IssuerReference, usages *[]cmv1.KeyUsage, duration **metav1.Duration, isCA *bool) error {
	if len(o.Usages) > 0 {
		*usages = usagesAs[cmv1.KeyUsage](o.Usages)
	}
	if o.Duration != nil {
		*duration = &metav1.Duration{Duration: *o.Duration}
	}
	*isCA = *isCA || o.CA
	if err := o.inNamespace(object); err != nil {
		return err
	}
	return o.issuer(ref, object.GetNamespace())
}

func (o *Options) ofCertificateRequest(cr *cmv1.CertificateRequest) (*Asked, error) {
	spec := &cr.Spec
	if err := o.set(cr, &spec.IssuerRef, &spec.Usages, &spec.Duration, &spec.IsCA); err != nil {
		return nil, err
	}
	who, err := o.requester(requester(spec.Username, spec.UID, spec.Groups, spec.Extra))
	if err != nil {
		return nil, err
	}
	spec.Username, spec.UID, spec.Groups, spec.Extra = who.Username, who.UID, who.Groups, who.Extra
	return &Asked{Request: request.FromCertificateRequest(cr), Object: cr}, nil
}

func (o *Options) ofPodRequest(req *certificatesv1beta1.PodCertificateRequest) (*Asked, error) {
	if err := o.inNamespace(req); err != nil {
		return nil, err
	}
	if o.As != nil {
		return nil, errors.New("the requester of a pod's request is the pod's service account: omit --as")
	}
	if len(o.Usages) > 0 || o.CA {
		return nil, errors.New("a pod's request names no usages: omit --usages and --ca")
	}
	spec := &req.Spec
	spec.SignerName = cmp.Or(o.Signer, spec.SignerName)
	if o.Duration != nil {
		spec.MaxExpirationSeconds = new(int32(o.Duration.Seconds()))
	}
	return &Asked{Request: request.FromPodRequest(req), Pod: spec, Object: req}, nil
}

// inNamespace puts an object into the namespace of the options. Like kubectl, it refuses
// an object in another namespace.
func (o *Options) inNamespace(object client.Object) error {
	switch namespace, wanted := object.GetNamespace(), cmp.Or(o.Namespace, o.DefaultNamespace); {
	case namespace == "" && wanted == "":
		return errors.New("metadata.namespace is missing: name it with --namespace")
	case namespace != "" && o.Namespace != "" && namespace != o.Namespace:
		return fmt.Errorf("it is in the namespace %s, not in %s as given with --namespace", namespace, o.Namespace)
	case namespace == "":
		object.SetNamespace(wanted)
	}
	return nil
}

// issuer sets the issuer that Signer names.
func (o *Options) issuer(ref *cmmeta.IssuerReference, namespace string) error {
	if o.Signer == "" {
		if ref.Name == "" {
			return errors.New("spec.issuerRef.name is missing: name the issuer with --signer, such as clusterissuers.cert-manager.io/NAME")
		}
		return nil
	}
	signer, ok := certmanager.ParseSignerName(o.Signer)
	switch form := certmanager.SignerForm(o.Signer); {
	case form != "":
		return fmt.Errorf("the signer %q is not the name of an issuer: it must have the form %s", o.Signer, form)
	case !ok:
		return fmt.Errorf("the signer %q is not an issuer of cert-manager.io, such as clusterissuers.cert-manager.io/NAME: for issuers of other groups, give a CertificateRequest that names its issuer", o.Signer)
	case signer.Namespace != "" && signer.Namespace != namespace:
		return fmt.Errorf("the signer %q is an Issuer in the namespace %s, but the request is in %s", o.Signer, signer.Namespace, namespace)
	}
	*ref = cmmeta.IssuerReference{Name: signer.Name, Kind: signer.Kind, Group: certmanager.Group}
	return nil
}

func (o *Options) requester(given request.Requester) (request.Requester, error) {
	switch {
	case o.As != nil:
		return *o.As, nil
	case given.Username != "":
		return given, nil
	case o.Whoami != nil:
		return o.Whoami()
	}
	return given, ErrNoRequester
}

func requester[V ~[]string](username, uid string, groups []string, extra map[string]V) request.Requester {
	who := request.Requester{Username: username, UID: uid, Groups: groups}
	if extra != nil {
		who.Extra = extraAs[[]string](extra)
	}
	return who
}

func extraAs[To, From ~[]string](extra map[string]From) map[string]To {
	if extra == nil {
		return nil
	}
	converted := map[string]To{}
	for key, values := range extra {
		converted[key] = To(values)
	}
	return converted
}

func usagesAs[To ~string](usages []string) []To {
	var converted []To
	for _, usage := range usages {
		converted = append(converted, To(usage))
	}
	return converted
}

// ServiceAccount returns the user of a service account, named NAMESPACE/NAME.
func ServiceAccount(text string) (request.Requester, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return request.Requester{}, fmt.Errorf("the service account %q must be NAMESPACE/NAME", text)
	}
	return request.ServiceAccount(namespace, name), nil
}

// FromUserInfo returns the requester that an API server has authenticated.
func FromUserInfo(info authenticationv1.UserInfo) request.Requester {
	return requester(info.Username, info.UID, info.Groups, info.Extra)
}
