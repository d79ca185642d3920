package listener

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/filewatch"
)

// filesEvery is how often the files of the certificate are read. A change is used at the
// second look.
const filesEvery = 2 * time.Second

// Trust contains the roots that clients verify the server's certificate with.
type Trust struct{ roots []*x509.Certificate }

// TrustIn returns a Trust in roots. The first one is the root of the current certificate.
func TrustIn(roots ...*x509.Certificate) Trust { return Trust{roots} }

// PEM returns the roots, nothing if they are not known.
func (t Trust) PEM() []byte {
	if len(t.roots) == 0 {
		return nil
	}
	return pki.EncodeCertificates(t.roots...)
}

// Fingerprint returns the SHA-256 digest of the first root as SHA256:<hexadecimal
// digits>, or "".
func (t Trust) Fingerprint() string {
	if len(t.roots) == 0 {
		return ""
	}
	digest := sha256.Sum256(t.roots[0].Raw)
	return "SHA256:" + hex.EncodeToString(digest[:])
}

// files are the files of a certificate.
type files struct{ filewatch.Files }

func newFiles(settings CertificateSettings, use func(*identity)) *files {
	return &files{filewatch.Files{
		Files: []filewatch.File{
			{Path: settings.CertFile, What: field + ".certificate.certFile"},
			{Path: settings.KeyFile, What: field + ".certificate.keyFile"},
			{Path: settings.RootFile, What: field + ".certificate.rootFile"},
		},
		Use: func(ctx context.Context, contents filewatch.Contents) error {
			next, err := parse(contents.Data[0], contents.Data[1], contents.Data[2])
			if err != nil {
				return err
			}
			use(next)
			klog.FromContext(ctx).Info("Using a certificate for ACME clients", "notAfter", next.certificate.Leaf.NotAfter)
			return nil
		},
		Report: func(ctx context.Context, failure error) {
			if failure != nil {
				klog.FromContext(ctx).Error(failure, "A changed certificate for ACME clients is not used")
			}
		},
	}}
}

func (f *files) open(ctx context.Context) error { return f.Open(ctx) }

func (f *files) run(ctx context.Context) { f.Run(ctx, clock.RealClock{}, filesEvery) }

// parse returns the identity in files. roots may be empty.
func parse(certPEM, keyPEM, roots []byte) (*identity, error) {
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s.certificate: %w", field, err)
	}
	trusted, err := rootsOf(certificate, roots)
	return &identity{&certificate, Trust{trusted}}, err
}

func rootsOf(certificate tls.Certificate, roots []byte) ([]*x509.Certificate, error) {
	if len(roots) > 0 {
		all, err := pki.ParseCertificates(roots)
		if err == nil && len(all) == 0 {
			err = errors.New("it has no certificate")
		}
		if err != nil {
			return nil, fmt.Errorf("%s.certificate.rootFile: %w", field, err)
		}
		return all, nil
	}
	last, err := x509.ParseCertificate(certificate.Certificate[len(certificate.Certificate)-1])
	if err != nil {
		return nil, fmt.Errorf("%s.certificate.certFile: %w", field, err)
	}
	if bytes.Equal(last.RawIssuer, last.RawSubject) && last.CheckSignatureFrom(last) == nil {
		return []*x509.Certificate{last}, nil
	}
	return nil, nil
}
