// Command pulumi-language-python runs Pulumi programs written in Python for the engine.
//
// It starts Pulumi's own executor, `pulumi-language-python-exec` of the SDK, in the virtual environment that the
// project names, and does nothing else: no installing, no code generation, no debugger. It stands in for Pulumi's
// language host, whose module is not everywhere to be had.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

//go:generate sh -c "mkdir -p ../../bin && install -m 755 $(go list -m -f {{.Dir}} github.com/pulumi/pulumi/sdk/v3)/python/cmd/pulumi-language-python-exec ../../bin/pulumi-language-python-exec"

// healthcheckInterval is how often the host asks whether the engine is still there.
const healthcheckInterval = 5 * time.Second

// alreadyToldExitCode is the executor's exit code after an error that it reported to the engine itself.
const alreadyToldExitCode = 32

func main() {
	if err := serve(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers the engine at an address until the engine goes away; the first line of output tells it the port.
func serve(engine string) error {
	executor, err := findExecutor()
	if err != nil {
		return err
	}
	stop := make(chan bool)
	err = rpcutil.Healthcheck(context.Background(), engine, healthcheckInterval, func() { close(stop) })
	if err != nil {
		return fmt.Errorf("watching the engine at %s: %w", engine, err)
	}
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: stop,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(server, &host{engine: engine, executor: executor})
			return nil
		},
	})
	if err != nil {
		return err
	}
	fmt.Println(handle.Port)
	return <-handle.Done
}

// findExecutor finds the executor beside this program.
func findExecutor() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	executor := filepath.Join(filepath.Dir(self), "pulumi-language-python-exec")
	if _, err := os.Stat(executor); err != nil {
		return "", fmt.Errorf("finding Pulumi's executor beside %s: %w", self, err)
	}
	return executor, nil
}

// host answers what `pulumi up`, `preview`, `refresh` and `destroy` ask; the rest is unimplemented, which the engine accepts.
type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer
	engine, executor string
}

func (h *host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{}, nil
}

func (h *host) Handshake(
	context.Context, *pulumirpc.LanguageHandshakeRequest,
) (*pulumirpc.LanguageHandshakeResponse, error) {
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

func (h *host) Run(ctx context.Context, request *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	command, err := h.command(ctx, request)
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return &pulumirpc.RunResponse{}, nil
	case errors.As(err, &exit) && exit.ExitCode() == alreadyToldExitCode:
		return &pulumirpc.RunResponse{Bail: true}, nil
	default:
		return &pulumirpc.RunResponse{Error: fmt.Sprintf("running the program: %v", err)}, nil
	}
}

// command is the executor with the request's program, in the project's virtual environment.
func (h *host) command(ctx context.Context, request *pulumirpc.RunRequest) (*exec.Cmd, error) {
	info := request.GetInfo()
	options := toolchain.PythonOptions{
		Root:       info.GetRootDirectory(),
		ProgramDir: info.GetProgramDirectory(),
		Virtualenv: info.GetOptions().GetFields()["virtualenv"].GetStringValue(),
		Toolchain:  toolchain.Pip,
	}
	python, err := toolchain.ResolveToolchain(options)
	if err != nil {
		return nil, err
	}
	arguments := []string{
		"-u", h.executor,
		"--engine", h.engine,
		"--monitor", request.GetMonitorAddress(),
		"--organization", request.GetOrganization(),
		"--project", request.GetProject(),
		"--stack", request.GetStack(),
		"--root_directory", info.GetRootDirectory(),
		"--pwd", request.GetPwd(),
		"--dry_run", strconv.FormatBool(request.GetDryRun()),
		"--parallel", strconv.Itoa(int(request.GetParallel())),
		info.GetEntryPoint(),
	}
	command, err := python.Command(ctx, append(arguments, request.GetArgs()...)...)
	if err != nil {
		return nil, err
	}
	config, err := configVariables(request)
	if err != nil {
		return nil, err
	}
	if command.Env == nil {
		command.Env = os.Environ()
	}
	command.Env = append(command.Env, config...)
	return command, nil
}

// configVariables are the environment variables that carry a stack's config; the executor wants both, empty or not.
func configVariables(request *pulumirpc.RunRequest) ([]string, error) {
	values := map[string]string{}
	maps.Copy(values, request.GetConfig())
	config, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	secretKeys, err := json.Marshal(append([]string{}, request.GetConfigSecretKeys()...))
	if err != nil {
		return nil, err
	}
	return []string{"PULUMI_CONFIG=" + string(config), "PULUMI_CONFIG_SECRET_KEYS=" + string(secretKeys)}, nil
}
