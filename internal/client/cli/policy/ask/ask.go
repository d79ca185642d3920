// Package ask creates the requests that tests of policies describe.
package ask

import (
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// Maker creates requests. It is not safe for concurrent use.
type Maker struct {
	// Facts holds the pods and the Certificates of requests.
	Facts *facts.Store
	// Now is the time of the requests.
	Now time.Time
	// Keys creates the keys.
	Keys *Keys
}

// Request creates a request.
func (m *Maker) Request(ask *v1alpha1.PolicyTestRequest) (*requests.Asked, error) {
	options, err := m.options(ask)
	if err != nil {
		return nil, err
	}
	der, err := m.pkcs10(ask)
	if err != nil {
		return nil, err
	}
	object, err := m.object(ask, der)
	if err != nil {
		return nil, err
	}
	if len(ask.Usages) == 0 && object.kind == v1alpha1.CertificateSigningRequests {
		// The API requires one in each request, although a test may not depend on it.
		options.Usages = []string{string(certificatesv1.UsageDigitalSignature)}
	}
	asked, err := options.OfObject(object.Object)
	if err != nil {
		return nil, err
	}
	return asked, m.origin(ask, asked)
}

// File returns the request in the content of a file, completed with the fields of ask.
func (m *Maker) File(name string, data []byte, ask *v1alpha1.PolicyTestRequest) (*requests.Asked, error) {
	if ask == nil {
		ask = &v1alpha1.PolicyTestRequest{}
	}
	if rest := onlyMade(*ask); rest != "" {
		return nil, fmt.Errorf("ask.%s is only for requests that the test creates, not for a request from a file", rest)
	}
	options, err := m.options(ask)
	if err != nil {
		return nil, err
	}
	all, err := options.Read(name, data)
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1:
		return nil, fmt.Errorf("%s has %d requests: one is needed", name, len(all))
	}
	return all[0], m.origin(ask, all[0])
}

// onlyMade returns the first given field that a request of a file cannot have.
func onlyMade(ask v1alpha1.PolicyTestRequest) string {
	ask.Kind, ask.Namespace, ask.Signer, ask.OwnSigner, ask.As, ask.Usages, ask.IsCA, ask.Duration, ask.Age = "", "", "", false, nil, nil, false, nil, nil
	if isForOrder(&ask) {
		ask.Origin, ask.ACME = "", nil
	}
	value := reflect.ValueOf(ask)
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

func (m *Maker) options(ask *v1alpha1.PolicyTestRequest) (*requests.Options, error) {
	options := &requests.Options{
		Kind: ask.Kind, Signer: ask.Signer, Namespace: ask.Namespace, Usages: ask.Usages, CA: ask.IsCA,
		Controller: facts.Controller(),
	}
	if _, err := requests.ParseKind(string(ask.Kind)); err != nil {
		return nil, fmt.Errorf("ask.kind: %w", err)
	}
	if ask.Duration != nil {
		options.Duration = &ask.Duration.Duration
	}
	switch {
	case ask.As != nil:
		who, err := User(ask.As)
		if err != nil {
			return nil, fmt.Errorf("ask.as: %w", err)
		}
		options.As = &who
	case ask.Owner != nil && ask.Origin != v1alpha1.OriginDirect:
		options.As = new(facts.Controller())
	}
	if ask.Origin == v1alpha1.OriginCertificate && ask.Owner == nil {
		return nil, errors.New("ask.owner must name the Certificate that the request is for")
	}
	options.Whoami = func() (request.Requester, error) {
		return request.Requester{}, errors.New("ask.as must name the requester")
	}
	return options, nil
}

// User returns the user of a test.
func User(u *v1alpha1.PolicyTestUser) (request.Requester, error) {
	var who request.Requester
	switch {
	case (u.Username == "") == (u.ServiceAccount == ""):
		return who, errors.New("either username or serviceAccount must be given")
	case u.ServiceAccount != "":
		account, err := requests.ServiceAccount(u.ServiceAccount)
		if err != nil {
			return who, fmt.Errorf("serviceAccount: %w", err)
		}
		who = account
		who.Groups = append(who.Groups, u.Groups...)
	default:
		who = request.User(u.Username, u.Groups...)
	}
	who.UID, who.Extra = u.UID, u.Extra
	return who, nil
}

// madeObject is an object without the fields that requests.Options set.
type madeObject struct {
	client.Object
	kind v1alpha1.RequestKind
}

func (m *Maker) object(ask *v1alpha1.PolicyTestRequest, der []byte) (madeObject, error) {
	metadata := metav1.ObjectMeta{
		Name: cmp.Or(ask.Name, "test"), Namespace: ask.Namespace, UID: "test", Labels: ask.Labels, Annotations: ask.Annotations,
		CreationTimestamp: metav1.NewTime(m.Now),
	}
	if ask.Age != nil {
		metadata.CreationTimestamp = metav1.NewTime(m.Now.Add(-ask.Age.Duration))
	}
	inPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	switch kind := kindOf(ask); kind {
	case v1alpha1.CertificateRequests:
		if ask.Owner != nil {
			metadata.OwnerReferences = []metav1.OwnerReference{m.owner(ask)}
		}
		return madeObject{&cmv1.CertificateRequest{ObjectMeta: metadata, Spec: cmv1.CertificateRequestSpec{Request: inPEM}}, kind}, nil
	case v1alpha1.PodCertificateRequests:
		spec, err := m.podSpec(ask)
		spec.StubPKCS10Request = der
		return madeObject{&certificatesv1beta1.PodCertificateRequest{ObjectMeta: metadata, Spec: spec}, kind}, err
	default:
		metadata.Namespace = ""
		return madeObject{&certificatesv1.CertificateSigningRequest{ObjectMeta: metadata, Spec: certificatesv1.CertificateSigningRequestSpec{Request: inPEM}}, kind}, nil
	}
}

// kindOf returns the kind of the request to make.
func kindOf(ask *v1alpha1.PolicyTestRequest) v1alpha1.RequestKind {
	_, isIssuer := certmanager.ParseSignerName(ask.Signer)
	switch {
	case ask.Kind != "":
		return ask.Kind
	case ask.Pod != "":
		return v1alpha1.PodCertificateRequests
	case isIssuer && ask.Namespace != "":
		return v1alpha1.CertificateRequests
	}
	return v1alpha1.CertificateSigningRequests
}

// owner refers to the Certificate of a request. A Certificate that is not among the facts
// has an unknown UID.
func (m *Maker) owner(ask *v1alpha1.PolicyTestRequest) metav1.OwnerReference {
	ref := metav1.OwnerReference{
		APIVersion: cmv1.SchemeGroupVersion.String(), Kind: cmv1.CertificateKind, Name: ask.Owner.Name, UID: "unknown", Controller: new(true),
	}
	if uid, found := m.Facts.UID(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind).GroupKind(), types.NamespacedName{Namespace: ask.Namespace, Name: ask.Owner.Name}); found {
		ref.UID = uid
	}
	return ref
}

// podSpec returns the kubelet's statements about a pod.
func (m *Maker) podSpec(ask *v1alpha1.PolicyTestRequest) (certificatesv1beta1.PodCertificateRequestSpec, error) {
	spec := certificatesv1beta1.PodCertificateRequestSpec{PodName: ask.Pod, UnverifiedUserAnnotations: ask.UserAnnotations}
	if ask.Pod == "" {
		return spec, errors.New("ask.pod must name a pod among the facts")
	}
	pod := &corev1.Pod{}
	if err := m.Facts.Find(client.ObjectKey{Namespace: ask.Namespace, Name: ask.Pod}, pod); err != nil {
		return spec, fmt.Errorf("ask.pod: the facts contain no Pod %s/%s", ask.Namespace, ask.Pod)
	}
	spec.PodUID, spec.ServiceAccountName, spec.NodeName = pod.UID, pod.Spec.ServiceAccountName, types.NodeName(pod.Spec.NodeName)
	spec.ServiceAccountUID, _ = m.Facts.UID(corev1.SchemeGroupVersion.WithKind("ServiceAccount").GroupKind(), types.NamespacedName{Namespace: ask.Namespace, Name: spec.ServiceAccountName})
	spec.NodeUID, _ = m.Facts.UID(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), types.NamespacedName{Name: pod.Spec.NodeName})
	return spec, nil
}

// isForOrder reports whether a request is for the order of an ACME client.
func isForOrder(ask *v1alpha1.PolicyTestRequest) bool {
	return ask.Origin == v1alpha1.OriginACME || ask.Origin == "" && ask.ACME != nil
}

// origin sets the origin, which cannot be derived from facts.
func (m *Maker) origin(ask *v1alpha1.PolicyTestRequest, asked *requests.Asked) error {
	switch {
	case isForOrder(ask):
		asked.Origin, asked.Owner = certpolicy.Known(new(v1alpha1.OriginACME)), certpolicy.Known[metav1.ObjectMeta](nil)
		asked.Order = cmp.Or(ask.ACME, &v1alpha1.ProvenOrder{})
	case ask.ACME != nil:
		return fmt.Errorf("ask.acme: a request with an order has the origin ACME, not %s", ask.Origin)
	case ask.Origin == "", ask.Origin == v1alpha1.OriginDirect, ask.Origin == v1alpha1.OriginCertificate:
	default:
		return fmt.Errorf("ask.origin: %q must be Direct, Certificate or ACME", ask.Origin)
	}
	if asked.Request.Created.IsZero() {
		asked.Request.Created = m.Now
	}
	if ask.Age != nil {
		asked.Request.Created = m.Now.Add(-ask.Age.Duration)
	}
	return nil
}
