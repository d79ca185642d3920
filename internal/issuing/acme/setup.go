package acme

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
)

// The reasons of the Ready condition.
const (
	ReasonRegistered     = "ACMEAccountRegistered"
	ReasonInvalidConfig  = "InvalidConfig"
	ReasonInvalidURL     = "InvalidURL"
	ReasonInvalidSolver  = "InvalidSolver"
	ReasonVerifyAccount  = "ErrVerifyACMEAccount"
	ReasonRegisterFailed = "ErrRegisterACMEAccount"
	ReasonUpdateFailed   = "ErrUpdateACMEAccount"
)

const (
	messageRegistered = "The ACME account was registered with the ACME server"
	failedToRegister  = "Failed to register ACME account: "
	failedToVerify    = "Failed to verify ACME account: "
	// failedToUpdate is followed by the error without a space, as in
	// cert-manager.
	failedToUpdate = "Failed to update ACME account:"
)

// lookAgain is the interval between checks of a ready issuer, which detect accounts that
// the server refuses.
const lookAgain = 5 * time.Minute

// setup checks issuers, and registers their accounts.
type setup struct {
	issuing.Config
	AccountSettings
	accounts *account.Accounts
	answers  Answers
	memory   *memory
}

func newSetup(cfg issuing.Config, accounts *account.Accounts, s AccountSettings, answers Answers) *setup {
	return &setup{Config: cfg, AccountSettings: s, accounts: accounts, answers: answers, memory: newMemory()}
}

// Changes notifies of issuers whose accounts a server does not accept. It is for
// issuing.Config.
func Changes(standing *account.Standing) func(changed func(issuing.Reference)) (cancel func()) {
	return func(changed func(issuing.Reference)) (cancel func()) {
		return standing.Subscribe(func(issuer types.UID) { changed(accountOf(issuer)) })
	}
}

// accountOf is the address of the account of an issuer among its Needs.
func accountOf(issuer types.UID) issuing.Reference {
	return issuing.Reference{Kind: schema.GroupKind{Group: "acme", Kind: "Account"}, NamespacedName: types.NamespacedName{Name: string(issuer)}}
}

func (s *setup) needs(of cmv1.GenericIssuer) []issuing.Reference {
	found := []issuing.Reference{accountOf(of.GetUID())}
	for _, name := range s.accounts.Secrets(of) {
		found = append(found, issuing.Secret(name))
	}
	return found
}

// Check makes one pass of set-up. Without a change it needs no network.
func (s *setup) Check(ctx context.Context, of cmv1.GenericIssuer, now time.Time) (issuing.Ready, error) {
	p := &pass{setup: s, issuer: of, spec: of.GetSpec().ACME, now: now, status: &acmev1.ACMEIssuerStatus{}}
	if stored := of.GetStatus().ACME; stored != nil {
		p.status = stored.DeepCopy()
	}
	ready := p.run(ctx)
	ready.ACME = p.status
	return ready, ctx.Err()
}

// pass is one check of an issuer.
type pass struct {
	*setup
	issuer cmv1.GenericIssuer
	spec   *acmev1.ACMEIssuer
	status *acmev1.ACMEIssuerStatus // to be written
	now    time.Time

	secret *corev1.Secret // with the key of the account
	entry  string
	key    account.Key
	hash   string // of key
	notice string
	again  time.Time // when a part that has failed is tried again
}

// run takes the steps in order. The first that returns a readiness ends the pass.
func (p *pass) run(ctx context.Context) issuing.Ready {
	for _, step := range []func(context.Context) *issuing.Ready{
		p.refuseVersion1, p.readKey, p.checkSolvers, p.checkURLs, p.reach,
	} {
		if ready := step(ctx); ready != nil {
			return *ready
		}
	}
	return p.ready()
}

// version2 are the addresses of Let's Encrypt for those of an older protocol.
var version2 = map[string]string{
	"https://acme-v01.api.letsencrypt.org/directory":     "https://acme-v02.api.letsencrypt.org/directory",
	"https://acme-staging.api.letsencrypt.org/directory": "https://acme-staging-v02.api.letsencrypt.org/directory",
}

func (p *pass) refuseVersion1(context.Context) *issuing.Ready {
	if better, ok := version2[strings.TrimSuffix(p.spec.Server, "/")]; ok {
		return wait(ReasonInvalidConfig, "Your ACME server URL is set to a v1 endpoint (%s). You should update the spec.acme.server field to %q", p.spec.Server, better)
	}
	return nil
}

func (p *pass) checkURLs(context.Context) *issuing.Ready {
	server, err := url.Parse(p.spec.Server)
	if err != nil {
		return wait(ReasonInvalidURL, "Failed to parse existing ACME server URI %q: %v", p.spec.Server, err)
	}
	known, err := url.Parse(p.status.URI)
	if err != nil {
		return wait(ReasonInvalidURL, "Failed to parse existing ACME account URI %q: %v", p.status.URI, err)
	}
	if p.status.URI != "" && known.Host != server.Host && !p.memory.registered(p.issuer.GetUID(), p.spec.Server, p.status.URI) {
		p.status.URI = ""
	}
	return nil
}

// reachTimeout bounds what a pass asks of a server: a server that does not answer
// is something to report.
const reachTimeout = 90 * time.Second

// reach returns the remembered state of the account, or queries the server.
func (p *pass) reach(ctx context.Context) *issuing.Ready {
	inputs, err := p.fingerprint(ctx)
	if err != nil {
		return retry(ReasonRegisterFailed, failedToRegister+"failed to get External Account Binding key from secret: %v", err)
	}
	last, known := p.memory.last(p.issuer.GetUID(), inputs)
	switch suspected := p.accounts.Standing().Suspected(p.issuer); {
	case suspected:
	case known && last.ready != nil && p.now.Before(last.until):
		return last.ready // what the server said; it is asked again later
	case known && last.ready == nil && p.registered() && !last.due(p.now):
		p.again = last.until
		return nil
	case !known && p.registered() && p.wasReady() && !p.rotating():
		p.memory.keep(p.issuer.GetUID(), outcome{inputs: inputs, server: p.spec.Server, uri: p.status.URI})
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	failed := p.account(asking)
	if ctx.Err() != nil {
		return failed
	}
	p.accounts.Standing().Checked(p.issuer, failed == nil)
	p.remember(ctx, failed)
	return failed
}

// registered reports whether the status belongs to the account of the key.
func (p *pass) registered() bool {
	return p.status.URI != "" && p.status.LastPrivateKeyHash == p.hash && p.status.LastRegisteredEmail == p.spec.Email
}

// wasReady reports whether the issuer was found ready with its present spec.
func (p *pass) wasReady() bool {
	condition := certmanager.IssuerCondition(p.issuer, cmv1.IssuerConditionReady)
	return condition != nil && condition.Status == cmmeta.ConditionTrue && condition.ObservedGeneration == p.issuer.GetGeneration()
}

func (p *pass) ready() issuing.Ready {
	again := p.now.Add(lookAgain)
	if !p.again.IsZero() && p.again.Before(again) {
		again = p.again
	}
	return issuing.Ready{
		OK: true, Reason: ReasonRegistered, Message: messageRegistered + p.unanswered(), Notice: p.notice, Again: again, Warnings: p.ignored(),
	}
}

// wait returns a readiness that stays until the issuer or a Secret changes.
func wait(reason, format string, args ...any) *issuing.Ready {
	r := issuing.NotReady(reason, format, args...)
	return &r
}

// retry returns a readiness after an error that can pass.
func retry(reason, format string, args ...any) *issuing.Ready {
	r := issuing.NotInitialized(reason, format, args...)
	r.Retry = errors.New(r.Message)
	return &r
}
