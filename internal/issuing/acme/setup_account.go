package acme

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing"
)

// TermsAnnotation, on an issuer, is the URL of the terms of service to which its account
// agrees. The configuration can require it.
const TermsAnnotation = "acme.certplane.dev/agreed-terms"

// account finds the account of the key, or registers one, and gives it the
// e-mail address of the issuer. It returns nil if all is well.
func (p *pass) account(ctx context.Context) *issuing.Ready {
	c, err := p.accounts.Client(p.issuer, p.key, "")
	if err != nil {
		return wait(ReasonRegisterFailed, failedToRegister+"%v", err)
	}
	found, err := c.FindAccount(ctx)
	if missing(err) {
		c, found, err = p.findNext(ctx, c)
	}
	var failed *issuing.Ready
	switch {
	case missing(err):
		failed = p.register(ctx, c)
	case err != nil:
		failed = p.refused(ReasonRegisterFailed, failedToRegister, err)
	default:
		failed = p.updateContact(ctx, c, found)
	}
	if failed != nil {
		return failed
	}
	p.status.URI, p.status.LastRegisteredEmail, p.status.LastPrivateKeyHash = c.Account(), p.spec.Email, p.hash
	return p.rotate(ctx, c)
}

// missing reports whether the server has no account for the key. Some servers
// refuse to look for one without what they need to create it.
func missing(err error) bool {
	problem, ok := problemIn(err)
	return ok && !limited(err) && (problem.Status == http.StatusNotFound || problem.HasType(
		rfc8555.ProblemAccountDoesNotExist, rfc8555.ProblemExternalAccountRequired, rfc8555.ProblemUserActionRequired, rfc8555.ProblemMalformed))
}

func problemIn(err error) (*rfc8555.Problem, bool) {
	problem := new(rfc8555.Problem)
	ok := errors.As(err, &problem)
	return problem, ok
}

func limited(err error) bool { return errors.As(err, new(*acme.LimitedError)) }

// register creates an account.
func (p *pass) register(ctx context.Context, c *acme.Client) *issuing.Ready {
	directory, err := c.Directory(ctx)
	if err != nil {
		return p.refused(ReasonRegisterFailed, failedToRegister, err)
	}
	if terms := directory.TermsOfService; terms != "" {
		if p.RequireTermsAgreement && p.issuer.GetAnnotations()[TermsAnnotation] != terms {
			return wait(ReasonRegisterFailed, failedToRegister+"the CA has terms of service at %s: if you agree to them, set the annotation %s of the issuer to this URL", terms, TermsAnnotation)
		}
		p.notice = "The ACME account agrees to the terms of service of the CA: " + terms
	}
	external, failed := p.externalAccount(ctx)
	if failed != nil {
		return failed
	}
	if _, err := c.Register(ctx, acme.Registration{Contact: p.contact(), External: external}); err != nil {
		return p.refused(ReasonRegisterFailed, failedToRegister, err)
	}
	return nil
}

// contact returns the contacts that the account should have.
func (p *pass) contact() []string {
	if p.spec.Email == "" {
		return nil
	}
	return []string{mailto + strings.ToLower(p.spec.Email)}
}

const mailto = "mailto:"

// updateContact gives an account that exists the e-mail address of the issuer.
func (p *pass) updateContact(ctx context.Context, c *acme.Client, found rfc8555.Account) *issuing.Ready {
	if p.hasContact(found) {
		return nil
	}
	if _, err := c.SetContact(ctx, p.contact()); err != nil {
		return p.refused(ReasonUpdateFailed, failedToUpdate, err)
	}
	return nil
}

// hasContact reports whether the account has the e-mail address of the issuer
// already. Some servers do not tell: then what was sent last counts.
func (p *pass) hasContact(found rfc8555.Account) bool {
	want := p.contact()
	if len(found.Contact) > 0 {
		return len(want) > 0 && strings.EqualFold(found.Contact[0], want[0])
	}
	sent := ""
	if p.status.LastPrivateKeyHash == p.hash {
		sent = p.status.LastRegisteredEmail
	}
	return strings.EqualFold(sent, p.spec.Email)
}

// permanent are the types of problems that do not pass by themselves.
var permanent = []string{
	rfc8555.ProblemMalformed, rfc8555.ProblemUnsupportedContact, rfc8555.ProblemInvalidContact, rfc8555.ProblemUnauthorized,
	rfc8555.ProblemExternalAccountRequired, rfc8555.ProblemUserActionRequired, rfc8555.ProblemBadPublicKey, rfc8555.ProblemBadSignatureAlgorithm,
}

// refused returns the readiness after an error of a request.
func (p *pass) refused(reason, prefix string, err error) *issuing.Ready {
	text := prefix + err.Error()
	if limit := new(acme.LimitedError); errors.As(err, &limit) {
		r := wait(reason, "%s", text)
		r.Again = limit.Until
		return r
	}
	problem, ok := problemIn(err)
	if !ok || !problem.HasType(permanent...) || problem.Status >= http.StatusInternalServerError {
		return retry(reason, "%s", text)
	}
	if see := whereToAgree(problem); see != "" {
		text += "; see " + see
	}
	return wait(reason, "%s", text)
}

// whereToAgree returns the URL at which a user has to do something.
func whereToAgree(problem *rfc8555.Problem) string {
	switch {
	case !problem.HasType(rfc8555.ProblemUserActionRequired):
		return ""
	case problem.TermsOfService != "":
		return problem.TermsOfService
	}
	return problem.Instance
}
