package replay

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
)

// auditEvent holds the fields read from an event of audit.k8s.io/v1.
type auditEvent struct {
	Stage            string                     `json:"stage"`
	RequestURI       string                     `json:"requestURI"`
	Verb             string                     `json:"verb"`
	User             authenticationv1.UserInfo  `json:"user"`
	ImpersonatedUser *authenticationv1.UserInfo `json:"impersonatedUser"`
	ObjectRef        *struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int32 `json:"code"`
	} `json:"responseStatus"`
	RequestObject            json.RawMessage   `json:"requestObject"`
	ResponseObject           json.RawMessage   `json:"responseObject"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

// outcomeAnnotation holds the decision of the policies at the creation of a request.
const outcomeAnnotation = "policy.certplane.dev/outcome"

// requestKinds are the kinds of requests, by their resources.
var requestKinds = map[string]v1alpha1.RequestKind{
	"certificates.k8s.io/certificatesigningrequests": v1alpha1.CertificateSigningRequests,
	"certificates.k8s.io/podcertificaterequests":     v1alpha1.PodCertificateRequests,
	"cert-manager.io/certificaterequests":            v1alpha1.CertificateRequests,
}

// mayCreate reports whether a line of an audit log can record the creation of a request.
// Most lines do not, and need not be decoded.
func mayCreate(line []byte) bool {
	return bytes.Contains(line, []byte(`"create"`)) && bytes.Contains(line, []byte("certificate"))
}

// ofAudit decodes an event of an audit log.
func (cfg *Config) ofAudit(data []byte) (*past, error) {
	if !mayCreate(data) {
		return nil, nil
	}
	event := &auditEvent{}
	if err := json.Unmarshal(data, event); err != nil {
		return nil, err
	}
	ref := event.ObjectRef
	if event.Verb != "create" || event.Stage != "ResponseComplete" || ref == nil || ref.Subresource != "" || strings.Contains(event.RequestURI, "dryRun=") {
		return nil, nil
	}
	kind, isRequest := requestKinds[ref.APIGroup+"/"+ref.Resource]
	outcome := v1alpha1.DecisionOutcome(event.Annotations[outcomeAnnotation])
	// A request refused for a reason other than policies was never stored.
	refused := event.ResponseStatus == nil || event.ResponseStatus.Code >= 300
	if !isRequest || refused && outcome != v1alpha1.OutcomeDeny {
		return nil, nil
	}
	body := event.body(refused)
	if len(body) == 0 {
		return nil, errNoBody
	}
	user := event.User
	if event.ImpersonatedUser != nil {
		user = *event.ImpersonatedUser
	}
	options := &requests.Options{DefaultNamespace: ref.Namespace}
	if kind != v1alpha1.PodCertificateRequests {
		options.As = new(requests.FromUserInfo(user))
	}
	asked, err := options.OfJSON(ref.APIGroup, string(kind), body)
	if err != nil {
		return nil, err
	}
	if asked.Request.Name == "" {
		asked.Request.Name = ref.Name
	}
	return cfg.ofAsked(asked, outcome, event.RequestReceivedTimestamp), nil
}

// body returns the request: the stored version if the event contains it.
func (e *auditEvent) body(refused bool) json.RawMessage {
	if len(e.ResponseObject) > 0 && !refused {
		return e.ResponseObject
	}
	return e.RequestObject
}
