package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger/cluster"
	"understudy/web/outbound"
)

// Config is the program's configuration. Each field is a flag (--data-dir), an
// environment variable (UNDERSTUDY_DATA_DIR) and a key of the YAML file
// (data_dir), from one tag; setting.go reads them in that order of precedence.
type Config struct {
	DataDir             string        `setting:"data-dir"             default:""               help:"folder of the private PostgreSQL and JetStream; by default one in your home"`
	DatabaseURL         secret        `setting:"database-url"         default:""               help:"PostgreSQL to use instead of the private one: postgres://user:password@host/database"`
	NATSURL             secret        `setting:"nats-url"             default:""               help:"NATS server with JetStream to use instead of the one in process: nats://host:4222"`
	PolicyKey           opaque        `setting:"policy-key"           default:""               help:"bearer token of the model server that --policy names"`
	JudgeKey            opaque        `setting:"judge-key"            default:""               help:"bearer token of the server that --judge names"`
	Environments        string        `setting:"environments"         default:""               help:"YAML file that declares environments of yours; by default environments.yaml, where there is one"`
	Rules               string        `setting:"rules"                default:""               help:"YAML file that says how tools answer: fields and codes of failure, and known defects of a sandbox"`
	PathPolicy          string        `setting:"path-policy"          default:""               help:"YAML file that says how fields compare: as ids, times, numbers within a tolerance, or not at all"`
	SamplingSecret      opaque        `setting:"sampling-secret"      default:""               help:"keys the choice of what is audited, so that a policy cannot tell"`
	GateWebhook         secret        `setting:"gate-webhook"         default:""               help:"URL that is told when a gate turns from PASS to FAIL and stays there for two verdicts"`
	OutboundAllow       string        `setting:"outbound-allow"       default:""               help:"addresses and networks inside that webhooks and redirects of model servers may reach, such as 10.0.0.0/8,127.0.0.1"`
	RewardRate          float64       `setting:"reward-rate"          default:"1"              help:"share of a trainer's outputs that are audited; below 1 writes count four times, doubtful ones always"`
	RewardBudget        time.Duration `setting:"reward-budget"        default:"0s"             help:"sandbox time that one training step may use; 0 is unbounded"`
	RewardHoldOut       string        `setting:"reward-hold-out"      default:""               help:"tools whose rewards are withheld, such as get_user,retail:refund_*: a measure that training cannot game"`
	Listen              string        `setting:"listen"               default:"127.0.0.1:8080" help:"address of the API and the dashboard; port 0 takes a free one"`
	TLSCert             string        `setting:"tls-cert"             default:""               help:"PEM file of the certificate, and its chain, that the service shows; read again when it changes"`
	TLSKey              string        `setting:"tls-key"              default:""               help:"PEM file of its private key"`
	BehindProxy         bool          `setting:"behind-proxy"         default:"false"          help:"a proxy of yours ends TLS and passes requests on: listen without TLS beyond this machine, and believe its X-Forwarded-For"`
	RequestRate         int           `setting:"request-rate"         default:"500"            help:"requests a second that one token may make, in bursts of twice as many; 0 is unbounded"`
	SignInRate          int           `setting:"sign-in-rate"         default:"10"             help:"wrong tokens a minute that one address may try; 0 is unbounded"`
	DrainDelay          time.Duration `setting:"drain-delay"          default:"0s"             help:"how long a stopping service says that it is not ready before it refuses connections"`
	OTLPEndpoint        secret        `setting:"otlp-endpoint"        default:""               help:"OpenTelemetry collector that gets traces by OTLP over HTTP, such as http://127.0.0.1:4318"`
	DatabaseConnections int           `setting:"database-connections" default:"10"             help:"connections to PostgreSQL at once"`
	StreamReplicas      int           `setting:"stream-replicas"      default:"1"              help:"servers of a NATS cluster that keep each message, 1, 3 or 5; needs --nats-url. The same for all programs on one NATS"`
	AckWait             time.Duration `setting:"ack-wait"             default:"30s"            help:"how long a silent worker keeps its jobs before another gets them; retries and the search for lost jobs follow it. The same for all programs on one NATS"`
	StopTimeout         time.Duration `setting:"stop-timeout"         default:"20s"            help:"how long a stopping program finishes what it holds"`
	LogLevel            string        `setting:"log-level"            default:"info"           help:"debug, info, warn or error"`
	LogFormat           string        `setting:"log-format"           default:"auto"           help:"text, json, or auto: text on a terminal"`
}

// Default is the configuration that nothing was said about.
func Default() Config {
	var c Config
	for _, s := range settings(&c) {
		if err := s.set(s.initial); err != nil {
			panic(err) // a default of ours that its own type refuses
		}
	}
	return c
}

// Validate lists every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(setting, format string, args ...any) {
		faults = append(faults, fmt.Errorf(setting+": "+format, args...))
	}
	if host, port, err := net.SplitHostPort(c.Listen); err != nil {
		fault("listen", "%q is no address: write host:port, such as 127.0.0.1:8080", c.Listen)
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		fault("listen", "port %q of %q is not between 0 and 65535", port, net.JoinHostPort(host, port))
	}
	if c.DatabaseURL != "" {
		if _, err := pgxpool.ParseConfig(string(c.DatabaseURL)); err != nil {
			fault("database-url", "%s is no PostgreSQL URL: write postgres://user:password@host:5432/database", c.DatabaseURL)
		}
	}
	for server := range strings.SplitSeq(string(c.NATSURL), ",") {
		if scheme, _, found := strings.Cut(strings.TrimSpace(server), "://"); c.NATSURL != "" && (!found || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, scheme)) {
			fault("nats-url", "%s is no NATS URL: write nats://host:4222", secret(server))
		}
	}
	if c.DatabaseConnections < 2 || c.DatabaseConnections > 1000 {
		fault("database-connections", "%d is not between 2 and 1000", c.DatabaseConnections)
	}
	if !(c.RewardRate > 0 && c.RewardRate <= 1) {
		fault("reward-rate", "%v is not above 0 and at most 1", c.RewardRate)
	}
	if c.RewardBudget < 0 {
		fault("reward-budget", "%s is negative", c.RewardBudget)
	}
	for p := range strings.SplitSeq(c.RewardHoldOut, ",") {
		if _, err := path.Match(strings.TrimSpace(p), ""); err != nil {
			fault("reward-hold-out", "%q is no pattern: write TOOL or ENVIRONMENT:TOOL, with * for any text", p)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		fault("tls-cert", "tls-cert and tls-key are needed together")
	}
	if c.RequestRate < 0 || c.SignInRate < 0 {
		fault("request-rate", "a rate is negative; 0 is unbounded")
	}
	if allowed, err := outbound.Allow(c.OutboundAllow); err != nil {
		fault("outbound-allow", "%w", err)
	} else if c.GateWebhook != "" {
		if err := (outbound.Rules{Allowed: allowed}).Check(string(c.GateWebhook)); err != nil {
			fault("gate-webhook", "%w; %s", err, audit.ErrorHint(err))
		}
	}
	if u, err := url.Parse(string(c.OTLPEndpoint)); c.OTLPEndpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		fault("otlp-endpoint", "%s is no address such as http://127.0.0.1:4318", c.OTLPEndpoint)
	}
	if c.DrainDelay < 0 {
		fault("drain-delay", "%s is negative", c.DrainDelay)
	}
	if !slices.Contains([]int{1, 3, 5}, c.StreamReplicas) {
		fault("stream-replicas", "%d is none of 1, 3, 5: a majority must agree", c.StreamReplicas)
	} else if c.StreamReplicas > 1 && c.NATSURL == "" {
		fault("stream-replicas", "%d servers are wanted, and the one in process is one: name a cluster with nats-url", c.StreamReplicas)
	}
	if c.AckWait < 100*time.Millisecond {
		fault("ack-wait", "%s is under 100ms, in which a worker cannot be heard three times", c.AckWait)
	}
	if c.StopTimeout <= 0 {
		fault("stop-timeout", "%s is not positive", c.StopTimeout)
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel) {
		fault("log-level", "%q is none of debug, info, warn, error", c.LogLevel)
	}
	if !slices.Contains([]string{"auto", "text", "json"}, c.LogFormat) {
		fault("log-format", "%q is none of auto, text, json", c.LogFormat)
	}
	return errors.Join(faults...)
}

// defaultDataDir is the user's data folder, or, where the private PostgreSQL
// could not live there (root's home is closed to other users, and PostgreSQL does
// not run as root) or there is no home, one for the whole system.
func defaultDataDir(env func(string) (string, bool)) string {
	if data, _ := env("XDG_DATA_HOME"); filepath.IsAbs(data) && cluster.Reachable(data) == nil {
		return filepath.Join(data, "understudy")
	}
	if home, _ := env("HOME"); filepath.IsAbs(home) && cluster.Reachable(home) == nil {
		return filepath.Join(home, ".local", "share", "understudy")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/understudy"
	}
	return filepath.Join(os.TempDir(), "understudy-"+strconv.Itoa(os.Getuid()))
}
