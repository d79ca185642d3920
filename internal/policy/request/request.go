// Package request has the common view of a request for a certificate, of any
// kind. Approvers, signers, issuers, and the clients that explain them decide
// by it. It is made only from the object.
package request

import (
	"crypto"
	"fmt"
	"slices"
	"strings"
	"time"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// CertificateRequests is the kind of requests that only issuers answer, and no
// Signer.
const CertificateRequests = v1alpha1.CertificateRequests

// Request is all that is known about a request. Its data about pods, nodes and
// service accounts must come from these objects themselves, found by the UIDs
// in the request. The objects that it refers to must not be modified.
type Request struct {
	// Kind is the kind of the request.
	Kind v1alpha1.RequestKind
	// Name, Namespace and UID identify the request. A CertificateSigningRequest has no
	// namespace. The UID is the same in each attempt to sign it.
	Name, Namespace, UID string
	// Created is when the API server stored the request, in whole seconds, like the stored
	// time.
	Created time.Time
	// Object is the object that the request was made from, for records of decisions. It
	// must not be modified.
	Object metav1.Object
	// Labels and ObjectAnnotations are the metadata of the object. They can
	// change after its approval: what they request is a matter between
	// requester and signer.
	Labels, ObjectAnnotations map[string]string
	// Owner is the controller of the object, nil if it has none. It is not proven: any
	// user with write access to the object can set it.
	Owner *metav1.OwnerReference
	// SignerName is the requested signer. For a CertificateRequest it is the
	// signer name of its issuer in CertificateSigningRequests, and empty for
	// issuers of other groups.
	SignerName string
	// Issuer is the requested issuer; nil if the signer is not known to be an
	// issuer.
	Issuer *Issuer
	// Requester is the user who made the request. For pods the zero value means
	// their service account.
	Requester Requester

	// PEM is the PKCS#10 request as sent; empty for pods.
	PEM []byte
	// PKCS10 is the PKCS#10 request, for pods the stub. It is nil if Unreadable
	// gives an error, and for requests of pods in the form of Kubernetes 1.35,
	// which have none: the API server has then verified the proof that the pod
	// has the key.
	PKCS10     *pki.Request
	Unreadable error
	// Key is the public key for the certificate.
	Key crypto.PublicKey

	// Usages are the requested usages by their names in the API, in the order
	// of the request. Pods do not request usages; a CertificateRequest without
	// usages gets the default ones.
	Usages []string
	// IsCA is the value in the object, not in the PKCS#10 request.
	IsCA bool
	// Duration is the requested lifetime; nil if none is requested.
	Duration *time.Duration
	// Annotations are a pod's unverifiedUserAnnotations.
	Annotations map[string]string

	// The objects that a pod's request is about; nil for other requests.
	Pod             *corev1.Pod
	ServiceAccount  *metav1.ObjectMeta
	Node            *metav1.ObjectMeta
	NamespaceObject *metav1.ObjectMeta
	// Order is the order of an ACME client that the request was made for. It is nil if
	// there is none, or if it was not looked up: that happens only for Signers whose
	// expressions read it.
	Order *v1alpha1.ProvenOrder
	// Services are the services that select the pod and that its service
	// account may claim.
	Services []ServiceName
}

// LifetimeLimits are lifetimes that policies set, nil if they set none.
type LifetimeLimits struct {
	// Default is the lifetime of certificates for requests that name none.
	Default *time.Duration
	// Max is the longest one. A longer one is shortened.
	Max *time.Duration
}

// Within returns the lifetime that is requested, or the policies' default, at
// most max if the policies have one. It is nil if the signer decides, within
// Max.
func (l LifetimeLimits) Within(requested *time.Duration) *time.Duration {
	if requested == nil {
		requested = l.Default
	}
	if requested != nil && l.Max != nil && *l.Max < *requested {
		return l.Max
	}
	return requested
}

// Issuer is the issuer that a request names.
type Issuer struct {
	// Group is its API group.
	Group string
	certmanager.Signer
	// Written is the reference in a CertificateRequest, without defaults.
	Written cmmeta.IssuerReference
}

// Reference returns the reference for objects that are made for the request: the written
// one if there is one, otherwise one with kind and group.
func (i *Issuer) Reference() cmmeta.IssuerReference {
	if i.Written.Name != "" {
		return i.Written
	}
	return cmmeta.IssuerReference{Name: i.Name, Kind: i.Kind, Group: i.Group}
}

// Requester is a user as the API server authenticates it.
type Requester struct {
	Username, UID string
	Groups        []string
	Extra         map[string][]string
}

// ServiceName is the address of a Service.
type ServiceName struct {
	Name, Namespace string
}

// FullName returns the name of an object for people: NAMESPACE/NAME, or NAME if it
// has no namespace.
func FullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Outline returns only the metadata of a request, without the cost of parsing
// the rest.
func Outline(kind v1alpha1.RequestKind, object metav1.Object) Request {
	return Request{
		Kind: kind, Name: object.GetName(), Namespace: object.GetNamespace(), UID: string(object.GetUID()),
		Created: object.GetCreationTimestamp().Truncate(time.Second), Labels: object.GetLabels(), ObjectAnnotations: object.GetAnnotations(),
		Owner: metav1.GetControllerOfNoCopy(object), Object: object,
	}
}

// Purpose returns the reason for signing a certificate, for the record.
func (r Request) Purpose() pki.Purpose {
	return pki.Purpose{
		Signer: r.SignerName, Requester: r.Requester.Username,
		Kind: string(r.Kind), Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}
}

// read stores the result of parsing the PKCS#10 request.
func (r *Request) read(parsed *pki.Request, err error) {
	if r.Unreadable = err; err == nil {
		r.PKCS10, r.Key = parsed, parsed.PublicKey
	}
}

// requester returns a Requester with its own copy of extra.
func requester[V ~[]string](username, uid string, groups []string, extra map[string]V) Requester {
	who := Requester{Username: username, UID: uid, Groups: groups}
	for key, values := range extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return who
}

// ServiceAccount returns the Requester of a service account, without its UID.
func ServiceAccount(namespace, name string) Requester {
	return Requester{
		Username: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// ServiceAccountOf returns which service account a user is, if it is one.
func ServiceAccountOf(username string) (namespace, name string, isAccount bool) {
	account, isAccount := strings.CutPrefix(username, "system:serviceaccount:")
	namespace, name, _ = strings.Cut(account, ":")
	return namespace, name, isAccount
}

// User returns a user with the groups that the API server adds: system:authenticated for
// every user, and the groups of service accounts for a service account.
func User(name string, groups ...string) Requester {
	if namespace, account, isAccount := ServiceAccountOf(name); isAccount && len(groups) == 0 {
		return ServiceAccount(namespace, account)
	}
	const everybody = "system:authenticated"
	if !slices.Contains(groups, everybody) && name != "system:anonymous" {
		groups = append(slices.Clone(groups), everybody)
	}
	return Requester{Username: name, Groups: groups}
}

// Who returns the requester: for a pod, its service account.
func (r Request) Who() Requester {
	if r.Kind == v1alpha1.PodCertificateRequests && r.Requester.Username == "" && r.ServiceAccount != nil {
		who := ServiceAccount(r.Namespace, r.ServiceAccount.Name)
		who.UID = string(r.ServiceAccount.UID)
		return who
	}
	return r.Requester
}

// IsPlanned reports whether the request does not exist yet, but is planned for a
// Certificate that is being written: it is not signed, because the key does not exist yet.
// Key has only the type and size of the key. Its UID and the data that come with the
// credential of the controller are not known either.
func (r Request) IsPlanned() bool {
	return r.Kind == CertificateRequests && r.PKCS10 != nil && len(r.PKCS10.Signature) == 0
}

func names[U ~string](usages []U) []string {
	var names []string
	for _, usage := range usages {
		names = append(names, string(usage))
	}
	return names
}

func seconds(s *int32) *time.Duration {
	if s == nil {
		return nil
	}
	return new(time.Duration(*s) * time.Second)
}

// Unparsed returns the request without the object, and without what follows from the
// rest, as the PKCS#10 request from its PEM form. It is for comparisons.
func (r Request) Unparsed() Request {
	r.Object, r.PKCS10, r.Key, r.Unreadable = nil, nil, nil, nil
	return r
}

// Parsed returns the PKCS#10 request, or an error for the requester if it
// cannot be parsed.
func (r Request) Parsed() (*pki.Request, error) {
	if r.Unreadable != nil {
		return nil, fmt.Errorf("parsing the certificate request: %w", r.Unreadable)
	}
	return r.PKCS10, nil
}
