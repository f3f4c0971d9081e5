# docker build -t stepsim . && docker run --rm -v "$PWD:/here" stepsim run gpt3-175b
FROM rust:1.95-slim AS build
WORKDIR /src
COPY . .
RUN cargo rustc --profile published --locked --bin stepsim -- -C target-feature=+crt-static

# The binary needs nothing beside it.
FROM scratch
COPY --from=build /src/target/published/stepsim /stepsim
WORKDIR /here
ENTRYPOINT ["/stepsim"]
CMD ["run"]
