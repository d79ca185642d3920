package acme

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// WarningIgnored: the certificate does not have all that was asked for.
const WarningIgnored = "RequestFieldsIgnored"

// issue returns the certificate of an Order. The root stays empty: CAs that
// speak ACME do not send theirs.
func (s *signing) issue(ctx context.Context, o *acmev1.Order, req issuing.Request, now time.Time) (*signer.Issued, error) {
	certs, err := pki.ParseChain(o.Status.Certificate)
	switch {
	case err != nil:
		return nil, s.replace(ctx, o, req, fmt.Sprintf("Deleting Order with bad certificate: %v", err))
	case !pki.SameKey(certs[0].PublicKey, req.Key):
		return nil, s.replace(ctx, o, req, "Deleting Order as the signed certificate's key does not match the request")
	}
	if _, err := pki.AcceptChain(certs, pki.Wanted{Key: req.Key, CA: req.Terms.IsCA}, now); err != nil {
		return nil, issuing.Permanent(ReasonOrderBadCertificate, "The certificate of Order "+nameOf(o)+" cannot be used", err)
	}
	return &signer.Issued{Certificate: certs[0], PEM: pki.EncodeCertificates(certs...), Fetched: true, Warnings: ignored(certs[0], req)}, nil
}

// replace deletes an Order whose certificate is not for the request: its
// deletion wakes the request, which gets a new one. The controller for Orders
// writes no such certificates.
func (s *signing) replace(ctx context.Context, o *acmev1.Order, req issuing.Request, why string) error {
	uid, version := o.UID, o.ResourceVersion
	err := s.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return pending(ReasonOrderGetError, "Failed to delete order resource "+nameOf(o), err)
	}
	if req.Kind != request.CertificateRequests {
		return issuing.Pending(ReasonOrderBadCertificate, why, nil)
	}
	return issuing.Pending(ReasonOrderPending, waitsFor(o)+" ("+why+")", nil)
}

// ignored returns warnings about requested content that is missing in the certificate. CAs
// include only validated names, and usages of their choice.
func ignored(cert *x509.Certificate, req issuing.Request) []signer.Warning {
	var fields []string
	add := func(field string, missing bool) {
		if missing {
			fields = append(fields, field)
		}
	}
	asked := req.PKCS10
	add("isCA", req.Terms.IsCA && !cert.IsCA)
	add("extended key usages", slices.ContainsFunc(req.Terms.Usages.Extended, func(u x509.ExtKeyUsage) bool { return !slices.Contains(cert.ExtKeyUsage, u) }))
	add("e-mail addresses", slices.ContainsFunc(asked.EmailAddresses, func(a string) bool { return !slices.Contains(cert.EmailAddresses, a) }))
	add("URIs", slices.ContainsFunc(asked.URIs, func(u *url.URL) bool {
		return !slices.ContainsFunc(cert.URIs, func(has *url.URL) bool { return has.String() == u.String() })
	}))
	add("other names", len(asked.OtherNames.Value) > 0)
	if len(fields) == 0 {
		return nil
	}
	return []signer.Warning{{Reason: WarningIgnored, Message: "The CA has omitted requested content from the certificate: " + strings.Join(fields, ", ")}}
}
