package venafi

import "time"

// connector speaks to one server, for one attempt.
type connector interface {
	// login verifies the credentials. It returns the grant of the server for them, which the
	// connector uses from now on.
	login() (*grant, error)
	// use has the connector use a grant, without a call.
	use(g *grant) error
	// verify asks the server whether a grant is good.
	verify(g *grant) error
	ping() error
	// request orders a certificate and returns the identifier for retrieving it.
	request(o Order) (id string, err error)
	// retrieve returns a certificate with its issuers in PEM. Its error is a
	// *PendingError if there is none yet.
	retrieve(id string, o Order) ([]byte, error)
	// revoke has the server forget a grant.
	revoke(g *grant) error
	// close ends background work.
	close()
}

// grant is the token or account that a server has granted for credentials.
type grant struct {
	token credential
	// account is the account of the credentials, for Cloud.
	account []byte
	// life is for how long the server grants it; zero means forever.
	life time.Duration
	// renewable is set if the credentials can get another one, own if this one must
	// be revoked when it is not used any more.
	renewable, own bool

	until time.Time // when it is not used any more; zero means never
}

// target identifies the server of a connector.
type target struct {
	Issuer
	credentials credentials
	userAgent   string
	observe     func(call string) (done func())
}
