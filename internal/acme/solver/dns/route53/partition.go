package route53

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
)

// partition is a part of AWS with separate accounts. Route 53 has one endpoint in each.
type partition struct {
	name string // as in ARNs
	// prefix is how the names of its regions begin.
	prefix string
	// route53 is the host of the API, whose requests are signed for home.
	route53 string
	home    string
	// suffix is the domain of the hosts of other services.
	suffix string
}

// partitions are looked up in this order; the last has all other regions.
var partitions = []partition{
	{name: "aws-cn", prefix: "cn-", route53: "route53.amazonaws.com.cn", home: "cn-northwest-1", suffix: "amazonaws.com.cn"},
	{name: "aws-us-gov", prefix: "us-gov-", route53: "route53.us-gov.amazonaws.com", home: "us-gov-west-1", suffix: "amazonaws.com"},
	{name: "aws-iso", prefix: "us-iso-", route53: "route53.c2s.ic.gov", home: "us-iso-east-1", suffix: "c2s.ic.gov"},
	{name: "aws-iso-b", prefix: "us-isob-", route53: "route53.sc2s.sgov.gov", home: "us-isob-east-1", suffix: "sc2s.sgov.gov"},
	{name: "aws", route53: "route53.amazonaws.com", home: "us-east-1", suffix: "amazonaws.com"},
}

// place is where calls go.
type place struct {
	partition
	// region is whose STS is called.
	region string
}

// regions matches names of regions. They become part of host names.
var regions = regexp.MustCompile(`^[a-z]{2,5}(-[a-z]{1,12}){1,3}-[0-9]{1,2}$`)

// findPlace returns where calls go. The region of the solver counts, unless
// ambient credentials are used and the environment has a region. Without any, it
// follows from the role.
func findPlace(spec *acmev1.ACMEIssuerDNS01ProviderRoute53, environment string, ambient bool) (place, error) {
	region := cmp.Or(spec.Region, environment)
	if ambient {
		region = cmp.Or(environment, spec.Region)
	}
	if region != "" && !regions.MatchString(region) {
		return place{}, fmt.Errorf("unable to construct route53 provider: %.64q is not a valid AWS region", region)
	}
	for _, p := range partitions {
		if region != "" && strings.HasPrefix(region, p.prefix) || region == "" && strings.HasPrefix(spec.Role, "arn:"+p.name+":") {
			return place{partition: p, region: cmp.Or(region, p.home)}, nil
		}
	}
	last := partitions[len(partitions)-1]
	return place{partition: last, region: last.home}, nil
}

func (p place) route53URL() string { return "https://" + p.route53 + "/2013-04-01" }
func (p place) stsURL() string     { return "https://sts." + p.region + "." + p.suffix + "/" }
