package crl

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/objects"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

const (
	// resource is the name of the lists in URLs.
	resource = "revocationlists"
	// mostOwn is the size of the largest list, in bytes, that is read only to find out whether
	// the host's own certificates are revoked.
	mostOwn = 1 << 20
	// unservedPause is how long a server that does not have lists is not asked again.
	unservedPause = time.Minute
)

// Reader reads lists from an API. It is safe for concurrent use.
type Reader struct {
	lists  *objects.Follower[inventoryv1alpha1.RevocationList]
	client rest.Interface

	mu       sync.Mutex
	contents map[string]*content // by the name of the RevocationList
	askAgain time.Time           // whether the server has lists
}

// content is a list that has been checked.
type content struct {
	der    []byte
	sha256 string
	List
	// revoked are the answers for certificates of this host, by serial number; nil if the list
	// does not name them.
	revoked map[string]*Revoked
}

// NewReader returns a reader that calls changed after each change of a list. Its watch ends
// with ctx.
func NewReader(ctx context.Context, client rest.Interface, discovery discovery.DiscoveryInterface, dynamic dynamic.Interface, changed func()) *Reader {
	return &Reader{client: client, contents: map[string]*content{}, lists: objects.New(ctx, objects.Kind[inventoryv1alpha1.RevocationList]{
		Resource: resource, Versions: []schema.GroupVersion{inventoryv1alpha1.GroupVersion},
		Changed: func(*inventoryv1alpha1.RevocationList) { changed() },
	}, discovery, dynamic)}
}

// Get returns the file that want describes. roots are the trust anchors of the signer in PEM,
// own are the volume's certificates of the signer. If a CA of a chain has no list, Get fails:
// programs that check the chain would refuse all certificates.
func (r *Reader) Get(ctx context.Context, want manifests.RevocationLists, roots []byte, own []*x509.Certificate, now time.Time) (File, error) {
	all, err := r.lists.All(ctx)
	if err != nil {
		return File{}, err
	}
	anchors, err := pki.ParseBundle(roots)
	if err != nil {
		return File{}, fmt.Errorf("reading the trust anchors of the signer: %w", err)
	}
	pool := x509.NewCertPool()
	for _, anchor := range anchors {
		pool.AddCert(anchor)
	}
	found, err := revocation.OfSigner(all, want.Signer, pool, now)
	if err != nil {
		return File{}, err
	}
	lists, err := choose(found, want, own, now)
	if err != nil {
		return File{}, err
	}
	var file File
	var ders [][]byte
	for _, list := range lists {
		known, err := r.content(ctx, list, now)
		if err != nil {
			return File{}, err
		}
		file.Lists, ders = append(file.Lists, known.List), append(ders, known.der)
	}
	if file.Data = revocation.EncodeLists(ders...); want.DER {
		file.Data = ders[0]
	}
	return file, nil
}

// choose returns the lists of a file in their order.
func choose(found revocation.SignerLists, want manifests.RevocationLists, own []*x509.Certificate, now time.Time) ([]revocation.Published, error) {
	var missing []string
	var issuing *revocation.Published
	for _, cert := range own {
		switch issuer := issuerOf(cert, found.Own); {
		case now.After(cert.NotAfter):
		case issuer == nil:
			missing = append(missing, cert.Issuer.String())
		default:
			issuing = issuer
		}
	}
	missing = append(missing, found.Missing...)
	switch {
	case len(found.Untrusted) > 0 && (len(found.Own) == 0 || slices.ContainsFunc(missing, func(ca string) bool { return slices.Contains(found.Untrusted, ca) })):
		return nil, fmt.Errorf("the roots in the ClusterTrustBundles of the signer %s do not include that of %s", want.Signer, strings.Join(found.Untrusted, ", "))
	case len(missing) > 0:
		return nil, fmt.Errorf("no list of %s: sign one with certplane crl sign", strings.Join(missing, ", "))
	case len(found.Own) == 0:
		return nil, fmt.Errorf("no list of a CA of the signer %s", want.Signer)
	case !want.DER:
		return slices.Concat(found.Own, found.Above), nil
	case issuing != nil:
		return []revocation.Published{*issuing}, nil
	case len(found.Own) > 1:
		return nil, fmt.Errorf("the signer %s has several CAs, but a DER file holds one list: use PEM, or add a certificate of the signer to the volume", want.Signer)
	}
	return found.Own, nil
}

// issuerOf returns the list of the CA that has signed a certificate; nil if there is none.
func issuerOf(cert *x509.Certificate, lists []revocation.Published) *revocation.Published {
	for n := range lists {
		if cert.CheckSignatureFrom(lists[n].Chain[0]) == nil {
			return &lists[n]
		}
	}
	return nil
}

// content returns the content of a list. It reads it from the server when it has changed.
func (r *Reader) content(ctx context.Context, list revocation.Published, now time.Time) (*content, error) {
	if known := r.known(list); known != nil && now.Before(known.NextUpdate) {
		return known, nil
	}
	der, err := r.client.Get().AbsPath("/apis", inventoryv1alpha1.GroupVersion.String(), resource, list.Name, "content").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the list of %s: %w", list.Subject, err)
	}
	parsed, err := list.Check(der, now)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	known := &content{der: der, sha256: hex.EncodeToString(sum[:]), List: describe(parsed), revoked: map[string]*Revoked{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.contents[list.Name] = known
	return known, nil
}

// known returns the content of a list if it was read already.
func (r *Reader) known(list revocation.Published) *content {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.contents[list.Name]; known != nil && known.sha256 == list.SHA256 {
		return known
	}
	return nil
}

// Revoked says when and why a certificate was revoked.
type Revoked struct {
	Time   time.Time
	Reason pki.Reason
}

// Revoked returns the entry of a signer's certificate in the list of its CA; nil if there is
// none, and as long as the list is not known. It reads only short lists for that.
func (r *Reader) Revoked(ctx context.Context, signer string, cert *x509.Certificate, now time.Time) (*Revoked, error) {
	all, err := r.published(ctx, now)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	found, err := revocation.OfSigner(all, signer, nil, now)
	if err != nil {
		return nil, err
	}
	list := issuerOf(cert, found.Own)
	if list == nil || list.Entries == 0 || list.Bytes > mostOwn && r.known(*list) == nil {
		return nil, nil
	}
	known, err := r.content(ctx, *list, now)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return known.entry(cert)
}

// published returns the lists that are known. A server without lists is asked again later.
func (r *Reader) published(ctx context.Context, now time.Time) ([]*inventoryv1alpha1.RevocationList, error) {
	r.mu.Lock()
	pause := r.askAgain.Sub(now)
	r.mu.Unlock()
	if pause > 0 && pause <= unservedPause {
		return nil, nil
	}
	all, err := r.lists.Known(ctx)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.askAgain = now.Add(unservedPause)
	}
	return all, err
}

func (c *content) entry(cert *x509.Certificate) (*Revoked, error) {
	serial := cert.SerialNumber.String()
	if answer, known := c.revoked[serial]; known {
		return answer, nil
	}
	list, err := x509.ParseRevocationList(c.der)
	if err != nil {
		return nil, err
	}
	var answer *Revoked
	for _, entry := range list.RevokedCertificateEntries {
		if entry.SerialNumber.Cmp(cert.SerialNumber) == 0 {
			answer = &Revoked{Time: entry.RevocationTime, Reason: pki.Reason(entry.ReasonCode)}
		}
	}
	c.revoked[serial] = answer
	return answer, nil
}
