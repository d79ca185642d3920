package request

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// OrderTerms is the order of an ACME client that a request was made for, and what the
// request asks for. It is sealed with an approval, so that the approval can count for a
// later order. Its JSON is stored: fields are only added.
type OrderTerms struct {
	Namespace string `json:"namespace"`
	Order     string `json:"order"`
	Endpoint  string `json:"endpoint"`
	Profile   string `json:"profile,omitempty"`
	Account   string `json:"account"`
	// AccountKey is the name of the key that the account had.
	AccountKey string `json:"accountKey,omitempty"`
	// RequesterUID is the UID of the ServiceAccount that made the request.
	RequesterUID string                    `json:"requesterUID,omitempty"`
	Identifiers  []v1alpha1.AcmeIdentifier `json:"identifiers"`
	// Kind is the kind of the request, Signer the name of its signer, or group, kind and
	// name of its issuer.
	Kind     v1alpha1.RequestKind `json:"kind"`
	Signer   string               `json:"signer"`
	Usages   []string             `json:"usages,omitempty"` // sorted
	Duration *time.Duration       `json:"duration,omitempty"`
}

// Ask sets what a request asks for.
func (t *OrderTerms) Ask(r Request) {
	t.Kind, t.RequesterUID, t.Signer = r.Kind, r.Requester.UID, r.SignerName
	if r.Issuer != nil {
		of := r.Issuer.Reference()
		t.Signer = of.Group + "/" + of.Kind + "/" + of.Name
	}
	t.Usages, t.Duration = slices.Sorted(slices.Values(r.Usages)), r.Duration
}

// Cover reports whether these terms allow everything in other, except for the order
// itself.
func (t *OrderTerms) Cover(other *OrderTerms) bool {
	same := t.Namespace == other.Namespace && t.Endpoint == other.Endpoint && t.Profile == other.Profile && t.Account == other.Account &&
		t.AccountKey == other.AccountKey && t.RequesterUID == other.RequesterUID && t.Kind == other.Kind && t.Signer == other.Signer
	if !same || len(other.Identifiers) == 0 || !sets.New(t.Identifiers...).HasAll(other.Identifiers...) || !sets.New(t.Usages...).HasAll(other.Usages...) {
		return false
	}
	return t.Duration == nil && other.Duration == nil || t.Duration != nil && other.Duration != nil && *other.Duration <= *t.Duration
}
