package venafi

import (
	"context"
	"errors"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// The reasons of the Ready condition.
const (
	// ReasonStarted: the server accepts the credentials and answers.
	ReasonStarted = "Certificate Manager issuer started"
	// ReasonAuthFailed: the server refuses the credentials.
	ReasonAuthFailed = "AuthFailed"
	// ReasonSetup: the spec is incomplete, or the server does not answer.
	ReasonSetup = "ErrorSetup"
)

// The Event about an issuer that has become ready.
const (
	eventReady = "Ready"
	textReady  = "Verified issuer with Certificate Manager server"
)

// experimental is a warning for users.
const experimental = "Issuers of type venafi are experimental: certplane has never run against a real server of CyberArk Certificate Manager"

// Check verifies the credentials of an issuer, and asks its server for an answer.
func (b *backend) Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (issuing.Ready, error) {
	if problem := problemOf(of.GetSpec().Venafi); problem != "" {
		return issuing.NotReady(ReasonSetup, "Failed to setup Certificate Manager issuer: error building client: %s", problem), nil
	}
	if _, err := fieldsOf(annotationFields, of.GetName(), of.GetAnnotations()); err != nil { // it would fail each request
		return issuing.NotReady(ReasonSetup, "Failed to setup Certificate Manager issuer: %v", err), nil
	}
	i := b.issuerOf(of)
	err := b.servers.Verify(ctx, i, b.accessOf(i))
	var init *venafi.InitError
	var r issuing.Ready
	switch {
	case err == nil:
		return issuing.Ready{
			OK: true, Reason: ReasonStarted, Message: ReasonStarted, Again: now.Add(b.servers.NextCheck()),
			EventReason: eventReady, EventMessage: textReady, Notice: experimental,
		}, nil
	case errors.As(err, &init) && init.Refused:
		r = issuing.NotInitialized(ReasonAuthFailed, "OAuth token request failed: %v", err)
	case errors.As(err, &init):
		r = issuing.NotInitialized(ReasonSetup, "Failed to setup Certificate Manager issuer: error building client: %v", err)
	default:
		r = issuing.NotInitialized(ReasonSetup, "Failed to setup Certificate Manager issuer: error pinging Certificate Manager: %v", err)
	}
	r.Retry = errors.New(r.Message)
	return r, nil
}
