package acme

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
)

// RotateAnnotation, on an issuer, replaces the key of its account once for each value. On
// the Secret it is the last value that was handled.
//
// The next key is stored in addition to the current one before it is sent to the server,
// and replaces the current key afterwards. If the process ends in between, the server is
// asked which of the two keys belongs to the account. Challenges that wait for their
// validation at that moment fail, and their Certificates are issued by another Order:
// replace keys when no certificate is being issued.
const RotateAnnotation = "acme.certplane.dev/rotate-account-key"

const (
	// rotateRefused is when the replacement of a key that the server has refused
	// is tried again.
	rotateRefused = time.Hour
	// rotateFailed is that after other errors: the server may have the next key
	// already.
	rotateFailed = 30 * time.Second
)

func (p *pass) nextEntry() string { return p.entry + account.NextSuffix }

// rotation returns the value of the annotation for which the key has to be
// replaced; empty if it need not be.
func (p *pass) rotation() string {
	value := p.issuer.GetAnnotations()[RotateAnnotation]
	if p.secret.Annotations[RotateAnnotation] == value {
		return ""
	}
	return value
}

// rotating reports whether the replacement of the key has begun, or has to.
func (p *pass) rotating() bool { return p.rotation() != "" || p.secret.Data[p.nextEntry()] != nil }

// findNext looks for the account with the next key, after the server did not
// know the present one. If it is found, the next key takes its place.
func (p *pass) findNext(ctx context.Context, present *acme.Client) (*acme.Client, rfc8555.Account, error) {
	next, err := p.storedNext()
	if next == nil || err != nil {
		return present, rfc8555.Account{}, errNoAccount
	}
	c, err := p.accounts.Client(p.issuer, next, "")
	if err != nil {
		return present, rfc8555.Account{}, err
	}
	found, err := c.FindAccount(ctx)
	if err != nil {
		return present, rfc8555.Account{}, err
	}
	return c, found, p.promote(ctx, next)
}

var errNoAccount = &rfc8555.Problem{Type: rfc8555.Namespace + rfc8555.ProblemAccountDoesNotExist, Status: http.StatusBadRequest}

// storedNext returns the next key in the Secret, or nil.
func (p *pass) storedNext() (account.Key, error) {
	if p.secret.Data[p.nextEntry()] == nil {
		return nil, nil
	}
	return account.ReadKey(p.secret, p.nextEntry())
}

// rotate replaces the key of the account if that is due. The issuer stays ready
// if that fails.
func (p *pass) rotate(ctx context.Context, c *acme.Client) *issuing.Ready {
	if !p.rotating() {
		return nil
	}
	if p.rotation() == "" {
		return p.dropNext(ctx)
	}
	err := p.replaceKey(ctx, c)
	if err == nil {
		p.notice = "The key of the ACME account was replaced"
		return nil
	}
	p.notice = fmt.Sprintf("The key of the ACME account could not be replaced: %v", err)
	p.again = p.now.Add(rotateFailed)
	if _, refused := problemIn(err); refused || errors.Is(err, acme.ErrNoKeyChange) {
		p.again = p.now.Add(rotateRefused)
	}
	return nil
}

// dropNext removes the next key if the annotation was removed before the key was sent to
// the server.
func (p *pass) dropNext(ctx context.Context) *issuing.Ready {
	changed := p.secret.DeepCopy()
	delete(changed.Data, p.nextEntry())
	if err := p.Client.Update(ctx, changed); err != nil {
		return retry(ReasonVerifyAccount, failedToVerify+"removing an unused key: %v", err)
	}
	p.secret = changed
	return nil
}

func (p *pass) replaceKey(ctx context.Context, c *acme.Client) error {
	directory, err := c.Directory(ctx)
	if err != nil {
		return err
	}
	if directory.KeyChange == "" {
		return acme.ErrNoKeyChange
	}
	next, err := p.storedNext()
	if next == nil || err != nil { // none yet, or one that cannot be read
		if next, err = p.storeNext(ctx); err != nil {
			return err
		}
	}
	if err := c.RollOver(ctx, next); err != nil {
		return err
	}
	return p.promote(ctx, next)
}

// storeNext makes the next key.
func (p *pass) storeNext(ctx context.Context) (account.Key, error) {
	key, err := pki.GenerateKey(p.AccountKey)
	if err != nil {
		return nil, err
	}
	data, err := account.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	changed := p.secret.DeepCopy()
	changed.Data[p.nextEntry()] = data
	if err := p.Client.Update(ctx, changed); err != nil {
		return nil, fmt.Errorf("storing the next key of the account: %w", err)
	}
	p.secret = changed
	return key, nil
}

// promote makes the next key the key of the account, in the Secret and for the
// rest of the pass.
func (p *pass) promote(ctx context.Context, next account.Key) error {
	changed := p.secret.DeepCopy()
	changed.Data[p.entry] = changed.Data[p.nextEntry()]
	delete(changed.Data, p.nextEntry())
	if value := p.issuer.GetAnnotations()[RotateAnnotation]; value != "" {
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[RotateAnnotation] = value
	}
	if err := p.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("storing the new key of the account: %w", err)
	}
	p.secret = changed
	if failed := p.setKey(next); failed != nil {
		return errors.New(failed.Message)
	}
	p.status.LastPrivateKeyHash = p.hash
	return nil
}
