// Package keyuse finds the stored requests whose keys a policy compares with the
// key of a request.
package keyuse

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Digest is a SHA-256 digest. The zero value is none.
type Digest [sha256.Size]byte

// Use holds the facts about a stored request that the index keeps.
type Use struct {
	Kind                 v1alpha1.RequestKind
	Namespace, Name, UID string
	Created              time.Time
	// Key is the digest of the public key, zero if the request has no readable key.
	Key Digest
	// Owner is the digest of the owner, see OwnerOf.
	Owner Digest
	State
}

// State is the part of a stored request that can change.
type State struct {
	// Issued: it has its certificate, or is getting it.
	Issued bool
	// Refused: it is denied or has failed.
	Refused bool
	// Voted: people have approved it, or some of those that have to.
	Voted bool
}

// Of returns the use of a key by a request. The state comes from the object that the
// request was made from.
func Of(r *request.Request) Use {
	return Use{
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Created: r.Created,
		Key: keyOf(r), Owner: OwnerOf(r), State: StateOf(r.Object),
	}
}

func keyOf(r *request.Request) Digest {
	var key Digest
	if r.Key == nil {
		return key
	}
	if sum, err := hex.DecodeString(pki.KeyFingerprint(r.Key)); err == nil {
		copy(key[:], sum)
	}
	return key
}

// StateOf returns the state of a request of any kind.
func StateOf(object any) State {
	k := requestkind.Of(object)
	if k == nil {
		return State{}
	}
	stored := object.(requestkind.Object)
	s := State{Issued: len(k.Certificate(stored)) > 0}
	for _, c := range k.Conditions(stored) {
		s.Refused = s.Refused || k.Refuses(c)
		s.Voted = s.Voted || quorum.IsVote(c.Type)
	}
	return s
}

// OwnerOf returns what requests of one owner have in common: their kind, namespace and
// requester, and the Certificate that controls them, by its UID. Requests without a
// Certificate have the signer, the subject and the names in common. Any requester can name
// a Certificate as the owner, but only in their own requests.
func OwnerOf(r *request.Request) Digest {
	parts := []string{string(r.Kind), r.Namespace, r.Who().Username}
	if r.Kind == v1alpha1.CertificateRequests && ofCertificate(r) {
		parts = append(parts, "Certificate", string(r.Owner.UID))
	} else {
		parts = append(parts, "", signerOf(r))
		parts = append(parts, Content(r)...)
	}
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d %s\n", len(part), part)
	}
	return Digest(hash.Sum(nil))
}

func ofCertificate(r *request.Request) bool {
	if r.Owner == nil || r.Owner.Kind != cmv1.CertificateKind {
		return false
	}
	gv, err := schema.ParseGroupVersion(r.Owner.APIVersion)
	return err == nil && gv.Group == cmv1.SchemeGroupVersion.Group
}

func signerOf(r *request.Request) string {
	if r.SignerName != "" || r.Issuer == nil {
		return r.SignerName
	}
	return strings.Join([]string{r.Issuer.Group, r.Issuer.Kind, r.Issuer.Namespace, r.Issuer.Name}, "/")
}

// Content returns the subject and the names, in an order of their own.
func Content(r *request.Request) []string {
	if r.PKCS10 == nil {
		return nil
	}
	asked := r.PKCS10
	var names []string
	for _, name := range asked.DNSNames {
		names = append(names, "DNS:"+strings.ToLower(name))
	}
	for _, name := range asked.IPAddresses {
		names = append(names, "IP:"+name.String())
	}
	for _, name := range asked.URIs {
		names = append(names, "URI:"+name.String())
	}
	for _, name := range asked.EmailAddresses {
		names = append(names, "email:"+name)
	}
	for _, name := range asked.OtherNames.Value {
		names = append(names, "other:"+name.Type.String()+":"+name.Value)
	}
	slices.Sort(names)
	return append([]string{string(asked.RawSubject)}, slices.Compact(names)...)
}

// Before reports whether u comes before other. Requests with a certificate come first,
// then the request created earlier, then, within one second, the one with the smaller UID.
// So among several requests with one key, exactly one comes before all others.
func (u *Use) Before(other *Use) bool { return compare(u, other) < 0 }

func compare(a, b *Use) int {
	switch {
	case a.Issued && !b.Issued:
		return -1
	case b.Issued && !a.Issued:
		return 1
	}
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
}

// Find returns the requests that come before a request, from two lists in any order:
// requests with the same key, and requests of the same owner. The lists can contain the
// request itself. A request without a UID is not stored and comes after all others.
func Find(of *Use, sameKey, sameOwner []*Use) v1alpha1.StoredKeys {
	before := func(u *Use) bool { return u.UID != of.UID && (of.UID == "" || u.Before(of)) }
	var first, last *Use
	for _, u := range sameKey {
		if of.Key != (Digest{}) && u.Key == of.Key && before(u) && (first == nil || u.Before(first)) {
			first = u
		}
	}
	for _, u := range sameOwner {
		if u.Owner == of.Owner && u.Key != (Digest{}) && !u.Refused && before(u) && (last == nil || last.createdBefore(u)) {
			last = u
		}
	}
	return v1alpha1.StoredKeys{Same: first.Stored(), Previous: last.Stored()}
}

// maxEarlier is how many requests that may be renewed are looked at.
const maxEarlier = 8

// Approved returns the last of the requests of the same owner that have a certificate
// and approvals of people, the last one first.
func Approved(of *Use, sameOwner []*Use) []v1alpha1.StoredRequest {
	var found []*Use
	for _, u := range sameOwner {
		if u.Owner == of.Owner && u.UID != of.UID && u.Issued && u.Voted && !u.Refused {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b *Use) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.UID, b.UID)) })
	var all []v1alpha1.StoredRequest
	for _, u := range found[:min(maxEarlier, len(found))] {
		all = append(all, *u.Stored())
	}
	return all
}

func (u *Use) createdBefore(other *Use) bool {
	return cmp.Or(u.Created.Compare(other.Created), cmp.Compare(u.UID, other.UID)) < 0
}

// Stored returns the public form of a use; nil for nil.
func (u *Use) Stored() *v1alpha1.StoredRequest {
	if u == nil {
		return nil
	}
	return &v1alpha1.StoredRequest{Kind: u.Kind, Namespace: u.Namespace, Name: u.Name, UID: u.UID, KeyFingerprint: hex.EncodeToString(u.Key[:])}
}
