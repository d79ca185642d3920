package route53

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"

	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

// stsCredentials are credentials in an answer of STS.
type stsCredentials struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
}

func (c stsCredentials) credentials() (credentials, error) {
	if c.AccessKeyID == "" || c.SecretAccessKey == "" || c.SessionToken == "" {
		return credentials{}, errors.New("the answer of STS has no credentials")
	}
	return credentials{keyID: c.AccessKeyID, secret: c.SecretAccessKey, session: c.SessionToken}, nil
}

// assume returns credentials of a role, for the holder of others.
func (s source) assume(ctx context.Context, role string, with credentials) (credentials, error) {
	api := restcall.New(restcall.Config{
		HTTP: s.env.HTTP, Now: s.env.Now, Explain: explain, Secrets: []string{with.keyID, with.secret, with.session},
		Authorize: func(request *http.Request, body []byte) error {
			sign(request, body, with, scope{region: s.place.region, service: "sts"}, s.env.Now())
			return nil
		},
	})
	var answer struct {
		XMLName     xml.Name       `xml:"AssumeRoleResponse"`
		Credentials stsCredentials `xml:"AssumeRoleResult>Credentials"`
	}
	if err := api.FormXML(ctx, s.place.stsURL(), assumeForm("AssumeRole", role, sessionName), &answer); err != nil {
		return credentials{}, err
	}
	return answer.Credentials.credentials()
}

// assumeWithToken returns credentials of a role, for the holder of a token of a
// service account.
func (s source) assumeWithToken(ctx context.Context, role, session, token string) (credentials, error) {
	api := restcall.New(restcall.Config{HTTP: s.env.HTTP, Now: s.env.Now, Explain: explain, Secrets: []string{token}})
	form := assumeForm("AssumeRoleWithWebIdentity", role, session)
	form.Set("WebIdentityToken", token)
	var answer struct {
		XMLName     xml.Name       `xml:"AssumeRoleWithWebIdentityResponse"`
		Credentials stsCredentials `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := api.FormXML(ctx, s.place.stsURL(), form, &answer); err != nil {
		return credentials{}, err
	}
	return answer.Credentials.credentials()
}

func assumeForm(action, role, session string) url.Values {
	return url.Values{"Action": {action}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {session}}
}
