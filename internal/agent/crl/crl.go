package crl

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"math/big"
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
	"github.com/certplane/certplane/internal/revocation"
)

const (
	// resource is the name of the lists in URLs.
	resource = "revocationlists"
	// mostOwn is the size of the largest list, in bytes, that is read only to find out whether
	// the host's own certificates are revoked: all hosts read it after each revocation. It has
	// about 5,000 entries.
	mostOwn = 256 << 10
)

// Reader reads lists from an API. It is safe for concurrent use.
type Reader struct {
	lists  *objects.Follower[inventoryv1alpha1.RevocationList]
	client rest.Interface

	mu       sync.Mutex
	contents map[string]*content // by the name of the RevocationList
}

// content is a list that has been checked.
type content struct {
	sha256               string // as the RevocationList has it: the content can be a later one
	*x509.RevocationList        // without its entries
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
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
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
		file.Lists, ders = append(file.Lists, known.RevocationList), append(ders, known.Raw)
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
	switch {
	case len(found.Untrusted) > 0 && (len(found.Own) == 0 || len(missing) > 0):
		return nil, fmt.Errorf("the roots in the ClusterTrustBundles of the signer %s do not include that of %s", want.Signer, strings.Join(found.Untrusted, ", "))
	case len(missing)+len(found.Missing) > 0:
		return nil, fmt.Errorf("no list of %s: sign one with certplane crl sign", strings.Join(append(missing, found.Missing...), ", "))
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
	//lint:ignore SA1019 the parser fills both
	parsed.RevokedCertificateEntries, parsed.RevokedCertificates = nil, nil
	known := &content{list.SHA256, parsed}
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

// Revoked returns the entry of a signer's certificate in the list of its CA; nil if there is
// none, and as long as the list is not known. It reads only short lists for that.
func (r *Reader) Revoked(ctx context.Context, signer string, cert *x509.Certificate, now time.Time) (*x509.RevocationListEntry, error) {
	atOnce, cancel := context.WithCancel(ctx)
	cancel() // does not wait for the first list: changed is called then
	all, err := r.lists.All(atOnce)
	if err != nil {
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
	return entryIn(known.Raw, cert.SerialNumber)
}

// entryIn returns the entry with a serial number; nil if there is none. It does not parse lists
// without it, which can be large.
func entryIn(der []byte, serial *big.Int) (*x509.RevocationListEntry, error) {
	if number, err := asn1.Marshal(serial); err != nil || !bytes.Contains(der, number) {
		return nil, err
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, err
	}
	for _, entry := range list.RevokedCertificateEntries {
		if entry.SerialNumber.Cmp(serial) == 0 {
			return &entry, nil
		}
	}
	return nil, nil
}

// File is a file with revocation lists.
type File struct {
	Data []byte
	// Lists are the lists, with or without their entries.
	Lists []*x509.RevocationList
}

// Parse reads a file that was written earlier. A file of another program has no lists.
func Parse(data []byte) File {
	lists, _ := revocation.ParseLists(data)
	return File{Data: data, Lists: lists}
}

// Follows returns an error if a list of the file is older than that of the same CA in the
// former file.
func (f File) Follows(former File) error {
	for _, next := range f.Lists {
		for _, last := range former.Lists {
			same := bytes.Equal(next.RawIssuer, last.RawIssuer) && bytes.Equal(next.AuthorityKeyId, last.AuthorityKeyId)
			if same && last.Number != nil && next.Number.Cmp(last.Number) < 0 {
				return fmt.Errorf("the server's list of %s has the number %d, but the file has a later one, %d: if the server was restored, run certplane revocation resume --from with this file",
					next.Issuer, next.Number, last.Number)
			}
		}
	}
	return nil
}

// First returns the list that ends first; nil without lists.
func (f File) First() *x509.RevocationList {
	if len(f.Lists) == 0 {
		return nil
	}
	return slices.MinFunc(f.Lists, func(a, b *x509.RevocationList) int { return a.NextUpdate.Compare(b.NextUpdate) })
}

// mostLeft is the most time before the end of a list at which a newer one is overdue. Lists of
// CAs whose keys are kept elsewhere live for years.
const mostLeft = 30 * 24 * time.Hour

// Overdue returns what is wrong with the age of the lists at a time: half of the validity of
// one has passed. It is empty if a newer list need not be there yet.
func (f File) Overdue(now time.Time) string {
	first := f.First()
	if first == nil {
		return ""
	}
	end := first.NextUpdate.UTC().Format(time.RFC3339)
	switch left := first.NextUpdate.Sub(now); {
	case left <= 0:
		return fmt.Sprintf("the list of %s ended at %s: programs that check it refuse all certificates of this CA", first.Issuer, end)
	case left < min(first.NextUpdate.Sub(first.ThisUpdate)/2, mostLeft):
		return fmt.Sprintf("the list of %s ends at %s, and a newer one has not come", first.Issuer, end)
	}
	return ""
}
