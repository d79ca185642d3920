package certificateshim

import (
	"unique"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/policy/shim"
)

// owned is what the cache keeps of a Certificate: it holds all of the API, and a Certificate
// takes twice the memory.
type owned struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is nil once the cache has trimmed it.
	Spec *cmv1.CertificateSpec `json:"spec"`

	SecretName string `json:"-"`
	// Digest is the digest of what is compared, empty for an owner of another kind.
	Digest string `json:"-"`
}

// DeepCopyObject implements runtime.Object.
func (o *owned) DeepCopyObject() runtime.Object {
	copied := *o
	copied.ObjectMeta, copied.Spec = *o.ObjectMeta.DeepCopy(), o.Spec.DeepCopy()
	return &copied
}

type ownedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []owned `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *ownedList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]owned, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*owned)
	}
	return &copied
}

// ownedScheme returns a scheme in which owned is the type of Certificates.
func ownedScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(cmv1.SchemeGroupVersion.WithKind("Certificate"), &owned{})
	s.AddKnownTypeWithName(cmv1.SchemeGroupVersion.WithKind("CertificateList"), &ownedList{})
	metav1.AddToGroupVersion(s, cmv1.SchemeGroupVersion)
	return s
}

// trimCertificate keeps the owner of a Certificate and the digest of what is compared. The cache
// trims the objects of streamed lists twice.
func (c *controller) trimCertificate(object any) (any, error) {
	o, ok := object.(*owned)
	if !ok || o.Spec == nil {
		return object, nil
	}
	kept := &owned{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: unique.Make(o.Namespace).Value(), Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, DeletionTimestamp: o.DeletionTimestamp,
		},
		SecretName: o.Spec.SecretName,
	}
	if o.Name == o.Spec.SecretName {
		kept.SecretName = o.Name // one string
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{{Kind: unique.Make(owner.Kind).Value(), Name: owner.Name, UID: owner.UID, Controller: &isController}}
		if owner.Kind == c.of.Kind || owner.Kind == listenerSetKind.Kind {
			kept.Digest = shim.Digest(&cmv1.Certificate{ObjectMeta: o.ObjectMeta, Spec: *o.Spec}, o.Annotations[shim.Mark] != "", c.CopiedAnnotations)
		}
	}
	return kept, nil
}

// isController is the field of all owners in the cache. It is never changed.
var isController = true

// bucketOf returns the value of the index byOwner, which several owners share: one for each
// owner would take as much memory as a Certificate.
func bucketOf(owner types.UID) string { return string(owner[:min(3, len(owner))]) }
