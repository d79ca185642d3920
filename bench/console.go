package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"text/tabwriter"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	cmclient "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
)

// consoleLoad is how many requests are stored, and how often each page is read.
type consoleLoad struct{ requests, reads int }

// consoleResult is how fast the pages of the console are.
type consoleResult struct {
	Requests int          `json:"requests"`
	Pages    []pageResult `json:"pages"`
}

type pageResult struct {
	Page            string  `json:"page"`
	Reads           int     `json:"reads"`
	KB              float64 `json:"kb"`
	P50Milliseconds float64 `json:"p50Milliseconds"`
	P99Milliseconds float64 `json:"p99Milliseconds"`
}

// measureConsole reads the console's pages while many requests wait: half of them are
// CertificateSigningRequests, the others CertificateRequests.
func measureConsole(ctx context.Context, s *system, opts options, to *results) error {
	log.Printf("creating %d requests", opts.console.requests)
	if err := fillRequests(ctx, s.admin, opts.console.requests); err != nil {
		return err
	}
	// The controllers have looked at all of them then.
	if err := sleep(ctx, opts.settle); err != nil {
		return err
	}
	to.Console = &consoleResult{Requests: opts.console.requests}
	defer opts.startProfile(ctx, s, "console", 0)()
	reader, err := rest.HTTPClientFor(s.admin)
	if err != nil {
		return err
	}
	for _, path := range []string{
		"requests", "requests?page=100", "requests?state=all", "object/certificatesigningrequests.certificates.k8s.io/-/r-0",
		"object/certificaterequests.cert-manager.io/default/r-1", "issued", "certificates", "issuers", "signers", "trust", "hosts", "policies", "acme",
	} {
		result, err := readPage(ctx, reader, s.admin.Host+"/console/"+path, opts.console.reads)
		if err != nil {
			return fmt.Errorf("reading the page %s: %w", path, err)
		}
		result.Page = path
		to.Console.Pages = append(to.Console.Pages, result)
	}
	return nil
}

// fillRequests creates requests that stay undecided.
func fillRequests(ctx context.Context, admin *rest.Config, count int) error {
	api := rest.CopyConfig(admin)
	api.QPS = -1 // no limit
	requests, err := kubernetes.NewForConfig(api)
	if err != nil {
		return err
	}
	issued, err := cmclient.NewForConfig(api)
	if err != nil {
		return err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error {
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{fmt.Sprintf("host-%d.example.com", i)}}, key)
			if err != nil {
				return err
			}
			text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
			name := metav1.ObjectMeta{Name: fmt.Sprintf("r-%d", i)}
			if i%2 == 0 {
				_, err = requests.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
					ObjectMeta: name,
					Spec:       certificatesv1.CertificateSigningRequestSpec{Request: text, SignerName: "certplane.dev/server", Usages: []certificatesv1.KeyUsage{"digital signature", "server auth"}},
				}, metav1.CreateOptions{})
				return err
			}
			// By default, requests for issuers of other groups stay undecided.
			_, err = issued.CertmanagerV1().CertificateRequests("default").Create(ctx, &cmv1.CertificateRequest{
				ObjectMeta: name,
				Spec:       cmv1.CertificateRequestSpec{Request: text, IssuerRef: cmmeta.IssuerReference{Name: "other", Kind: "Other", Group: "example.com"}},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// readPage reads a page some times, one after the other.
func readPage(ctx context.Context, reader *http.Client, url string, reads int) (pageResult, error) {
	result := pageResult{Reads: reads}
	var took []time.Duration
	for range reads {
		begin := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return result, err
		}
		answer, err := reader.Do(r)
		if err != nil {
			return result, err
		}
		size, err := io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil {
			return result, err
		}
		if answer.StatusCode != http.StatusOK {
			return result, errors.New(answer.Status)
		}
		took = append(took, time.Since(begin))
		result.KB = float64(size) / 1000
	}
	result.P50Milliseconds, result.P99Milliseconds = percentiles(took)
	return result, nil
}

func (r *consoleResult) write(out io.Writer) error {
	if r == nil {
		return nil
	}
	fmt.Fprintf(out, "\nConsole, with %d requests that wait:\n", r.Requests)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "page\treads\tKB\tp50 ms\tp99 ms")
	for _, p := range r.Pages {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t%.1f\n", p.Page, p.Reads, p.KB, p.P50Milliseconds, p.P99Milliseconds)
	}
	return table.Flush()
}

func (r *consoleResult) goals() []goal {
	var all []goal
	for _, p := range r.Pages {
		all = append(all, goal{What: "console: page " + p.Page + ", p99", Unit: "ms", Is: p.P99Milliseconds, Limit: 100},
			goal{What: "console: page " + p.Page + ", size", Unit: "KB", Is: p.KB, Limit: 100})
	}
	return all
}
