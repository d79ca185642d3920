package route53

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"

	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
	"github.com/certplane/certplane/internal/process/sigv4"
)

// stsCredentials are credentials in an answer of STS.
type stsCredentials struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
}

func (c stsCredentials) credentials() (sigv4.Credentials, error) {
	if c.AccessKeyID == "" || c.SecretAccessKey == "" || c.SessionToken == "" {
		return sigv4.Credentials{}, errors.New("the answer of STS has no credentials")
	}
	return sigv4.Credentials{KeyID: c.AccessKeyID, Secret: c.SecretAccessKey, Session: c.SessionToken}, nil
}

// assume exchanges credentials for those of a role.
func (s source) assume(ctx context.Context, role string, with sigv4.Credentials) (sigv4.Credentials, error) {
	api := restcall.New(restcall.Config{
		HTTP: s.env.HTTP, Now: s.env.Now, Explain: explain, Secrets: []string{with.KeyID, with.Secret, with.Session},
		Authorize: func(request *http.Request, body []byte) error {
			sigv4.Sign(request, body, with, s.place.region, "sts", s.env.Now())
			return nil
		},
	})
	var answer struct {
		XMLName     xml.Name       `xml:"AssumeRoleResponse"`
		Credentials stsCredentials `xml:"AssumeRoleResult>Credentials"`
	}
	if err := api.FormXML(ctx, s.place.stsURL(), assumeForm("AssumeRole", role, sessionName), &answer); err != nil {
		return sigv4.Credentials{}, err
	}
	return answer.Credentials.credentials()
}

// assumeWithToken returns credentials of a role, for the holder of a token of a
// service account.
func (s source) assumeWithToken(ctx context.Context, role, session, token string) (sigv4.Credentials, error) {
	api := restcall.New(restcall.Config{HTTP: s.env.HTTP, Now: s.env.Now, Explain: explain, Secrets: []string{token}})
	form := assumeForm("AssumeRoleWithWebIdentity", role, session)
	form.Set("WebIdentityToken", token)
	var answer struct {
		XMLName     xml.Name       `xml:"AssumeRoleWithWebIdentityResponse"`
		Credentials stsCredentials `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := api.FormXML(ctx, s.place.stsURL(), form, &answer); err != nil {
		return sigv4.Credentials{}, err
	}
	return answer.Credentials.credentials()
}

func assumeForm(action, role, session string) url.Values {
	return url.Values{"Action": {action}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {session}}
}
