package sign_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const (
	burst   = 200
	parties = 16 // clients that send requests at the same time
)

var ofBurst = metav1.ListOptions{LabelSelector: "burst=yes"}

// testBurst checks that each request gets exactly one certificate and keeps it,
// however many requests come at once and whichever other clients write to them.
func (w world) testBurst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	requests := w.admin.CertificatesV1().CertificateSigningRequests()
	begin, err := requests.List(ctx, ofBurst)
	if err != nil {
		t.Fatal(err)
	}
	// A server ends the watch of a slow client, which this one can be: it
	// resumes where it was.
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, begin.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = ofBurst.LabelSelector
			return requests.Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()

	before := w.scrape(t, issuedMetric)
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(parties + 1)
	first := map[string][]byte{}
	group.Go(func() error { return firstCertificates(sending, changes, first) })
	for i := range burst {
		request := newCSR(t, fmt.Sprintf("burst-%d", i), pki.Subject{CommonName: fmt.Sprintf("burst-%d", i)}, apitest.NewKey(t))
		request.Labels = map[string]string{"burst": "yes"}
		group.Go(func() error {
			if err := w.submit(sending, request); err != nil {
				return err
			}
			return w.interfere(sending, request.Name)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}

	w.wantOneEach(t, first)
	// The signer updates its counter after the certificate is visible.
	apitest.Eventually(t, "each certificate is counted once", func() bool {
		return cmp.Equal(map[string]int{signerName: burst}, increase(before, w.scrape(t, issuedMetric)))
	})
}

// wantOneEach checks that every request has its first certificate, and that no
// two are the same.
func (w world) wantOneEach(t *testing.T, first map[string][]byte) {
	t.Helper()
	last, err := w.admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), ofBurst)
	if err != nil {
		t.Fatal(err)
	}
	serials := map[string]string{}
	for _, c := range last.Items {
		if !bytes.Equal(c.Status.Certificate, first[c.Name]) {
			t.Errorf("%s has another certificate than at first", c.Name)
		}
		cert := w.parse(t, c.Status.Certificate)[0]
		wantCertificateFor(t, &c, cert)
		if twin := serials[cert.SerialNumber.String()]; twin != "" {
			t.Errorf("%s and %s have the same serial number", twin, c.Name)
		}
		serials[cert.SerialNumber.String()] = c.Name
	}
	if len(serials) != burst {
		t.Errorf("%d certificates, want %d", len(serials), burst)
	}
}

// submit creates and approves a request.
func (w world) submit(ctx context.Context, request *csr) error {
	requests := w.admin.CertificatesV1().CertificateSigningRequests()
	created, err := requests.Create(ctx, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = requests.UpdateApproval(ctx, created.Name, apitest.With(created, certificatesv1.CertificateApproved), metav1.UpdateOptions{})
	return err
}

// interfere writes to a request at the same time as the signer.
func (w world) interfere(ctx context.Context, name string) error {
	requests := w.admin.CertificatesV1().CertificateSigningRequests()
	for i := range 3 {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"interfering":"%d"}}}`, i)
		if _, err := requests.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// firstCertificates records the first certificate of each request, until all of
// the burst have one. A certificate that changes is an error.
func firstCertificates(ctx context.Context, changes watch.Interface, first map[string][]byte) error {
	for len(first) < burst {
		select {
		case event, open := <-changes.ResultChan():
			c, isCSR := event.Object.(*csr)
			if !open || !isCSR {
				return fmt.Errorf("the watch ended with %d certificates: %v", len(first), event.Object)
			}
			if len(first[c.Name]) > 0 && !bytes.Equal(first[c.Name], c.Status.Certificate) {
				return fmt.Errorf("the certificate of %s has changed", c.Name)
			}
			if len(c.Status.Certificate) > 0 {
				first[c.Name] = c.Status.Certificate
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d requests have certificates: %w", len(first), burst, ctx.Err())
		}
	}
	return nil
}

func wantCertificateFor(t *testing.T, c *csr, cert *x509.Certificate) {
	t.Helper()
	request, err := pki.ParseRequest(c.Spec.Request)
	if err != nil {
		t.Fatal(err)
	}
	public, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.PublicKey) || cert.Subject.CommonName != c.Name {
		t.Errorf("%s has a certificate of %s", c.Name, cert.Subject)
	}
}

// TestStop checks that requests that were approved before a stop are signed,
// possibly after the next start.
func TestStop(t *testing.T) {
	w := start(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(parties)
	for i := range 50 {
		request := newCSR(t, fmt.Sprintf("stop-%d", i), pki.Subject{CommonName: fmt.Sprintf("stop-%d", i)}, apitest.NewKey(t))
		group.Go(func() error { return w.submit(ctx, request) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	for i := range 50 {
		c := w.get(t, fmt.Sprintf("stop-%d", i))
		wantCertificateFor(t, c, w.parse(t, apitest.Issued(t, w.admin, c))[0])
	}
}
